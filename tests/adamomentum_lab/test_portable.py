"""Classes of a script or a notebook: their identity, and the way to other processes."""

import functools
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import pytest

from adamomentum_lab import portable
from adamomentum_lab.catalog import refer
from adamomentum_lab.errors import LabError

CELL = """
import random
import numpy as np
import torch
from dataclasses import dataclass, field
from functools import cached_property, partial
from torch import nn

SIZE = 3
TABLE = torch.arange(SIZE)
NUMBERS = np.arange(4.0)
WORDS = {"b", "a", "c"}

def halve(x, by=2):
    return x / by

@dataclass
class Options:
    width: int = 4
    names: list = field(default_factory=list)

class Base:
    slope = 1.0
    def other(self): return Unused

class Unused: ...

class Problem(Base):
    "Its text."
    options = Options()
    make = partial(halve, by=3)
    @cached_property
    def table(self): return TABLE[:SIZE]
    @property
    def words(self): return WORDS, NUMBERS
    @staticmethod
    def model(): return [halve(i) for i in range(SIZE)], (lambda: random.random())
    def again(self): return Problem, super().other()
"""


def define(text=CELL, name="Problem"):
    scope = {"__name__": "__main__"}
    exec(compile(text, "cell", "exec"), scope)
    return scope[name]


def code_of(*changes):
    text = CELL
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    code, why = portable.add(define(text), "Problem")
    assert why is None
    return code


@pytest.mark.parametrize(
    "change",
    [
        ("SIZE = 3", "SIZE = 4"),
        ("arange(4.0)", "arange(5.0)"),
        ('"a", "c"', '"a", "d"'),
        ("return x / by", "return x * by"),
        ("by=2", "by=5"),
        ("by=3", "by=5"),
        ("width: int = 4", "width: int = 5"),
        ("slope = 1.0", "slope = 1"),
        ("class Unused: ...", "class Unused: a = 1"),
        ("lambda: random.random()", "lambda: random.gauss(0, 1)"),
        ("TABLE[:SIZE]", "TABLE[SIZE:]"),
        ("@staticmethod", "@classmethod"),
    ],
    ids=lambda change: change[1],
)
def test_a_change_of_what_it_uses_is_another_identity(change):
    assert code_of(change) != code_of()


def test_the_same_text_is_the_same_identity_wherever_it_stands():
    code = code_of()
    assert code == code_of()
    assert code == code_of(("SIZE = 3", "\n\nSIZE = 3  # a comment\nNOT_USED = 5"))
    assert code == code_of(('"Its text."', '"Another text."'))
    other = "from tests.adamomentum_lab.test_portable import code_of; print(code_of())"
    done = subprocess.run(
        [sys.executable, "-c", other],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    assert done.stdout.strip() == code


def test_what_cannot_be_identified_is_new_each_time():
    cls = define("import threading\nclass Problem:\n    lock = threading.Lock()")
    (one, why), (other, _) = portable.add(cls, "Problem"), portable.add(cls, "Problem")
    assert one != other
    assert why == "it uses a lock, which cannot be pickled"


def test_a_cycle_ends():
    assert portable.add(define("ALL = []\nclass Problem:\n    all = ALL\nALL.append(Problem)"), "P")


IN_A_CHILD = """
import pickle, sys
reference = pickle.load(sys.stdin.buffer)
print(reference.load()().table.tolist())
"""


def test_it_reaches_another_process_with_what_it_uses(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = """
    import neighbour
    from neighbour import double
    from adamomentum_lab import Classification
    SIZE = 3
    class Problem(Classification):
        data = model = lambda self: None
        @property
        def table(self):
            import torch
            return double(torch.arange(SIZE))
    """
    reference, why = refer(define(textwrap.dedent(text)))
    assert why is None
    assert reference.load()().table.tolist() == [0, 2, 4]
    child = subprocess.run(
        [sys.executable, "-c", IN_A_CHILD],
        input=pickle.dumps(reference),
        capture_output=True,
        check=False,
    )
    assert child.stdout.decode().strip() == "[0, 2, 4]", child.stderr.decode()
    # A changed neighbour is another identity.
    (tmp_path / "neighbour.py").write_text("def double(x):\n    return 3 * x\n")
    del sys.modules["neighbour"]
    assert refer(define(textwrap.dedent(text)))[0].code != reference.code


def test_what_cannot_be_sent_is_one_sentence():
    cls = define("class Problem: pass")
    cls.lock = threading.Lock()
    code, _ = portable.add(cls, "Problem")
    with pytest.raises(LabError, match=r"^Problem cannot be sent to worker processes \(.*lock"):
        portable.carry(code, functools.partial)
