"""Tiny Shakespeare: its characters and its parts."""

import pytest
import torch

from adamomentum_lab.errors import LabError
from adamomentum_paper.data.files import root
from adamomentum_paper.data.tiny_shakespeare import tiny_shakespeare

real = pytest.mark.skipif(
    not (root() / "tiny-shakespeare").is_dir(), reason="Tiny Shakespeare is not in the data folder"
)


@real
def test_the_real_text():
    parts, characters = tiny_shakespeare()
    assert len(characters) == 65
    assert [len(part) for part in parts] == [1_003_854, 55_772, 55_768]
    assert "".join(characters[i] for i in parts[0][:14]) == "First Citizen:"
    train, validation, test = parts
    # Validation goes on where training ends; pieces of 13,943 characters alternate.
    text = (root() / "tiny-shakespeare" / "input.txt").read_text()
    begins = {0: validation[:9], 1: test[:9], 2: validation[13_943:13_952]}
    for piece, found in begins.items():
        at = len(train) + 13_943 * piece
        assert "".join(characters[i] for i in found) == text[at : at + 9]
    assert torch.cat(parts).unique().tolist() == list(range(65))


def test_text_that_is_missing_or_damaged(tmp_path):
    with pytest.raises(LabError, match=r"input\.txt is missing: `adamomentum data fetch tiny-sh"):
        tiny_shakespeare(tmp_path)
    (tmp_path / "tiny-shakespeare").mkdir()
    (tmp_path / "tiny-shakespeare" / "input.txt").write_text("First Citizen:")
    with pytest.raises(LabError, match=r"input\.txt is damaged: its sha256 is"):
        tiny_shakespeare(tmp_path)
