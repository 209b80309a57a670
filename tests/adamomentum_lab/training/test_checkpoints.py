"""Checkpoints: whole or not there, damage noticed, no code run."""

import errno
import os

import pytest
import torch

from adamomentum_lab.errors import LabError
from adamomentum_lab.training.checkpoints import Checkpoints


def state(n):
    return {"n": n, "weights": torch.full((100,), float(n))}


def test_the_last_one_is_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load() is None
    for n in (1, 2, 3):
        checkpoints.save(state(n))
    loaded = Checkpoints(tmp_path).load()
    assert loaded["n"] == 3
    assert torch.equal(loaded["weights"], torch.full((100,), 3.0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.ckpt", "previous.ckpt"]


@pytest.mark.parametrize("cut", [0, 10, 40, 500])
def test_a_cut_off_file_gives_way_to_the_one_before(tmp_path, cut):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))
    checkpoints.save(state(2))
    content = checkpoints.last.read_bytes()
    checkpoints.last.write_bytes(content[:cut])
    with pytest.warns(UserWarning, match="last.ckpt is damaged; an older checkpoint is used"):
        assert checkpoints.load()["n"] == 1


def test_every_flipped_bit_is_noticed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))
    content = bytearray(checkpoints.last.read_bytes())
    for place in range(0, len(content), 101):
        content[place] ^= 1
        checkpoints.last.write_bytes(content)
        with pytest.warns(UserWarning, match="damaged"):
            assert checkpoints.load() is None
        content[place] ^= 1


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))
    checkpoints.last.replace(checkpoints.previous)
    assert checkpoints.load()["n"] == 1


def test_a_full_disk_is_one_sentence_and_keeps_what_was_there(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))
    checkpoints.save(state(2))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LabError, match=r"cannot write the checkpoint .*No space left on device"):
        checkpoints.save(state(3))
    assert checkpoints.load()["n"] == 2
    assert not list(tmp_path.glob("*.tmp"))


class Malice:
    def __reduce__(self):
        return os.system, ("touch /tmp/should-never-be",)


def test_nothing_that_could_run_code_is_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"bad": Malice()})
    with pytest.warns(UserWarning, match=r"is no checkpoint \(UnpicklingError\)"):
        assert checkpoints.load() is None


def test_a_checkpoint_of_another_run_is_not_used(tmp_path):
    """Seed 2 would report the numbers of seed 1."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one, other = (Checkpoints(tmp_path / name, run=name) for name in ("one", "other"))
    other.save(state(1))
    other.save(state(2))
    one.save(state(3))
    one.last.replace(other.last)
    with pytest.warns(UserWarning, match=r"last\.ckpt belongs to another run"):
        assert other.load()["n"] == 1
    other.previous.unlink()
    with pytest.warns(UserWarning, match="belongs to another run"):
        assert other.load() is None


def test_a_checkpoint_that_does_not_fit_gives_way_to_the_one_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state(1))
    checkpoints.save({"other": "keys"})
    with pytest.warns(UserWarning, match=r"last\.ckpt does not fit the run"):
        assert checkpoints.load(lambda state: "n" in state)["n"] == 1


def test_a_thread_writes_and_its_errors_come_later(tmp_path):
    checkpoints = Checkpoints(tmp_path, "run")
    state = {"weights": torch.ones(3), "epoch": 1}
    checkpoints.save(state, wait=False)
    state["weights"].zero_()  # training goes on
    assert torch.equal(checkpoints.load()["weights"], torch.ones(3))
    assert checkpoints.seconds > 0
    checkpoints.last.unlink()
    checkpoints.last.mkdir()
    checkpoints.save(state, wait=False)
    with pytest.raises(LabError, match="cannot write the checkpoint"):
        checkpoints.save(state)


def test_the_last_checkpoint_of_a_run_is_alone(tmp_path):
    checkpoints = Checkpoints(tmp_path, "run")
    for epoch in range(3):
        checkpoints.save({"epoch": epoch}, finished=epoch == 2)
    assert not checkpoints.previous.exists()
    assert checkpoints.load()["epoch"] == 2
