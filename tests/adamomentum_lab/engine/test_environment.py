"""What a run tells of its machine."""

import platform
from pathlib import Path

import pytest
import torch

from adamomentum_lab.engine import environment


@pytest.mark.parametrize(
    ("told", "otherwise", "name"),
    [
        (
            "processor\t: 0\nmodel name\t: A Processor: fast\nmodel name\t: Another\n",
            "x",
            "A Processor: fast",
        ),
        ("processor\t: 0\n", "arm", "arm"),
        (None, "arm", "arm"),
        (None, "", None),
    ],
)
def test_the_processor_by_name(monkeypatch, told, otherwise, name):
    def read(file, **_):
        assert file == Path("/proc/cpuinfo")
        if told is None:
            raise FileNotFoundError
        return told

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(platform, "processor", lambda: otherwise)
    assert environment._processor.__wrapped__() == name


def test_the_environment_is_of_this_process():
    found = environment.environment("cpu")
    assert found["threads"] == torch.get_num_threads()
    assert found["torch"] == torch.__version__
    assert found["device"] == "cpu"
