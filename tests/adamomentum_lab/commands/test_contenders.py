"""`adamomentum contenders check`."""

import json

import pytest

from adamomentum_lab.contract import CHECKS
from tests.adamomentum_lab.command_line import run_here
from tests.adamomentum_lab.contenders.user_optimizers import write_lion

SGD = '''
import torch


class Careful(torch.optim.SGD):
    """SGD as it should be."""

    def __init__(self, params, lr=0.1, momentum=0.9, weight_decay=0.0):
        super().__init__(params, lr, momentum, weight_decay=weight_decay)


class Careless(Careful):
    """Writes into gradients, and counts its steps where no checkpoint finds them."""

    steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(1 + self.steps)
        return super().step(closure)
'''


def test_a_good_optimizer_passes(tmp_path):
    file = write_lion(tmp_path, "mine.py", SGD)
    done = run_here("contenders", "check", f"{file}:Careful")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(CHECKS) + 1
    assert "Careful: a checkpoint continues bit for bit: passed" in lines
    assert "Careful: bfloat16 parameters are trained: passed" in lines
    assert lines[-1] == f"Careful: {len(CHECKS)} checks passed, 0 failed"


def test_a_bad_optimizer_is_reported_with_the_failed_check(tmp_path):
    file = write_lion(tmp_path, "mine.py", SGD)
    done = run_here("contenders", "check", f"{file}:Careless,adamw", "--json")
    assert done.returncode == 1
    results = json.loads(done.stdout)
    failed = {name for name, why in results["Careless"].items() if why}
    assert {"gradients stay untouched", "a checkpoint continues bit for bit"} <= failed
    assert "is deterministic" not in failed
    untouched = results["Careless"]["gradients stay untouched"]
    assert untouched == "failed: assert torch.equal(same, grad)"
    assert not any(results["adamw"].values())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch.optim.LBFGS", "LBFGS cannot be checked: it takes a closure, and the checks take"),
        ("FILE:last_layer", "last_layer cannot be checked: it takes the model"),
        ("adamx", "there is no optimizer 'adamx'"),
    ],
)
def test_what_cannot_be_checked_gets_a_sentence(text, words, tmp_path):
    done = run_here("contenders", "check", text.replace("FILE", str(write_lion(tmp_path))))
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())


def test_help_has_an_example():
    assert (
        "Example: adamomentum contenders check" in run_here("contenders", "check", "--help").stdout
    )
