"""Readers of data files take any bytes: they give what was published, or a sentence."""

import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from adamomentum_lab.errors import LabError
from adamomentum_paper.data import penn_treebank, tiny_shakespeare
from adamomentum_paper.data.cifar10 import cifar10
from adamomentum_paper.data.images import decode

quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)


@settings(quiet, max_examples=300)
@given(
    kind=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "none"]),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8),
    cut=st.floats(0, 1),
    other=st.binary(max_size=50),
)
@pytest.mark.filterwarnings("ignore")
def test_images(tmp_path, kind, changes, cut, other):
    made = io.BytesIO(other)
    if kind != "none":
        Image.linear_gradient("L").resize((9, 7)).convert("RGB").save(made, kind)
    content = bytearray(made.getvalue())
    content = content[: max(1, int(cut * len(content)))]
    for place, byte in changes:
        if content:
            content[int(place * len(content)) % len(content)] = byte
    file = tmp_path / "image.png"
    file.write_bytes(content)
    try:
        assert decode(file).mode == "RGB"
    except LabError as error:
        assert "cannot be decoded" in str(error)  # noqa: PT017


@quiet
@given(content=st.binary(max_size=5000))
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("cifar-10-batches-bin/test_batch.bin", lambda folder: cifar10(False, folder)),
        ("cifar-10-batches-py/test_batch", lambda folder: cifar10(False, folder)),
        ("tinyshakespeare/input.txt", tiny_shakespeare.tiny_shakespeare),
        ("penn-treebank/ptb.train.txt", penn_treebank.penn_treebank),
    ],
)
def test_files_with_a_published_digest(tmp_path_factory, name, read, content):
    folder = tmp_path_factory.mktemp("data")
    for place in (folder / name, folder / "ptb" / "ptb.train.txt"):
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_bytes(content)
    with pytest.raises(LabError):
        read(folder)
