"""Engines by name."""

import os

import pytest

from adamomentum_lab.engine.factory import make_engine
from adamomentum_lab.engine.local import Local
from adamomentum_lab.errors import LabError


def test_engines_by_name():
    engine = make_engine("local", None, print, jobs=3)
    assert isinstance(engine, Local)
    assert engine._room(99) == 3
    assert make_engine("local", None, print)._room(99) == os.cpu_count()
    with pytest.raises(LabError, match=r"no engine 'lokal' \(did you mean 'local'\?\); there are "):
        make_engine("lokal", None, print)
