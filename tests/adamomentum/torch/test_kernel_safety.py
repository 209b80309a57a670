"""The native kernel under abuse: each test is a fault that it once had."""

import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import _native
from tests.adamomentum.torch import fuzz

REASON = _native.unavailable(torch.device("cpu"))
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON or "")
ROOT = Path(__file__).parents[3]
BACKENDS = {"fused": {"fused": True}, "foreach": {"foreach": True}, "single": {"foreach": False}}


def stepped(options, *, start=(1.0, 2.0, 3.0), grad=(0.5, -1.0, 2.0), before=None, **more):
    """A parameter after one step that `before` may have disturbed."""
    param = torch.nn.Parameter(torch.tensor(start))
    optimizer = AdaMomentum([param], **{"lr": 0.1, **more}, **options)
    param.grad = torch.tensor(grad)
    optimizer.step()
    if before:
        before(param, optimizer.state[param])
        optimizer.step()
    return param.detach().resolve_neg()


@pytest.mark.parametrize("seed", range(0, 400, 40))
def test_random_steps_agree_with_the_oracle(seed):
    assert [said for i in range(seed, seed + 40) if (said := fuzz.run(i))] == []


@pytest.mark.parametrize("what", ["param", "exp_avg", "exp_avg_momentum_sq", "step"])
def test_the_fuzzer_notices_a_wrong_number(what, monkeypatch):
    """An error of 2e-6, thirty roundings of float32, is enough; of a step, one too many."""
    run = _native.run

    def wrong(work, scalars):
        run(work, scalars)
        for param in work.params:
            tensor = param.detach() if what == "param" else optimizer_of(param).state[param][what]
            tensor.add_(1) if what == "step" else tensor.mul_(1 + 2e-6)

    def optimizer_of(param):
        return next(x for x in optimizers if param in x.state)

    optimizers = []
    step = AdaMomentum.step
    monkeypatch.setattr(AdaMomentum, "step", lambda self: (optimizers.append(self), step(self))[1])
    monkeypatch.setattr("adamomentum.torch._native.run", wrong)
    assert any(fuzz.run(seed) for seed in range(20))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_other_threads_never_see_a_marked_step():
    """The reader copies steps in C++, without the GIL, so that it may look into the kernel's work.

    There are so many that it nearly always does.
    """
    params = [torch.nn.Parameter(torch.zeros(1)) for _ in range(20_000)]
    optimizer = AdaMomentum([*params, *params], fused=True)
    for param in params:
        param.grad = torch.ones(1)
    optimizer.step()
    steps = [optimizer.state[param]["step"] for param in params]
    stop, seen = threading.Event(), []

    def read():
        while not stop.is_set():
            seen.append(float(torch.stack(steps).min()))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(40):
        optimizer.step()
    stop.set()
    reader.join()
    assert seen
    assert min(seen) >= 2


REPLACE = """
import threading, time, torch
from adamomentum import AdaMomentum
torch.set_num_threads(1)
params = [torch.nn.Parameter(torch.ones(64)) for _ in range(300)]
for param in params:
    param.grad = torch.ones(64)
optimizer = AdaMomentum(params, fused=True)
optimizer.step()
stop = time.monotonic() + 2
def replace():
    while time.monotonic() < stop:
        for param in params:
            state = optimizer.state[param]
            REPLACE
            param.grad = torch.ones(64)
threads = [threading.Thread(target=replace) for _ in range(3)]
for thread in threads:
    thread.start()
while time.monotonic() < stop:
    optimizer.step()
for thread in threads:
    thread.join()
print("alive")
"""


KINDS = {
    "tensors": "for key in list(state): state[key] = state[key].clone()",
    "memory": "for x in (param, param.grad, *state.values()): x.data = x.data.clone()",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_other_threads_replace_is_kept_alive(kind):
    code = REPLACE.replace("REPLACE", KINDS[kind])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "alive\n", done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "gcc-11", "clang"])
def test_compilers_build_the_wide_loops(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }")
    empty = [compiler, "-fopenmp", str(tmp_path / "empty.c"), "-o", str(tmp_path / "empty")]
    if subprocess.run(empty, capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} has no OpenMP here")
    folder = ROOT / "src/adamomentum/torch"
    library = tmp_path / "kernel.so"
    words = [compiler, "-std=gnu11", "-O3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    words += [
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fopenmp",
        "-fPIC",
        "-shared",
        f"-I{sysconfig.get_paths()['include']}",
    ]
    words += [str(folder / "_cpu.c"), str(folder / "_cpu_kernel.c"), "-o", str(library)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if os.uname().machine == "x86_64":
        code = subprocess.check_output(["objdump", "-d", str(library)], text=True)
        for name in ("step_f32_avx2", "step_f64_avx2", "small_avx2"):
            body = code.partition(f"<{name}>:")[2].partition("\n\n")[0]
            assert "ymm" in body, name


@pytest.mark.parametrize("t", [0, 10])
def test_rectify_keeps_a_nan_of_the_second_moment(t):
    def spoil(_, state):
        state["exp_avg_momentum_sq"][1] = float("nan")
        state["step"].fill_(t)

    results = [stepped(BACKENDS[name], rectify=True, before=spoil) for name in BACKENDS]
    assert bool(results[0][1].isnan()) == (t > 0)
    for other in results[1:]:
        torch.testing.assert_close(results[0], other, equal_nan=True)


def test_amsgrad_keeps_a_nan_of_the_maximum():
    def spoil(_, state):
        state["max_exp_avg_momentum_sq"][1] = float("nan")

    results = [stepped(BACKENDS[name], amsgrad=True, before=spoil) for name in BACKENDS]
    for result in results:
        assert result.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("name", BACKENDS)
def test_noise_goes_on_beyond_2_to_the_24th_step(name):
    param = torch.nn.Parameter(torch.zeros(4096))
    optimizer = AdaMomentum(
        [param], lr=0.0, state_dtype=torch.bfloat16, **({} if name == "foreach" else BACKENDS[name])
    )
    param.grad = torch.ones(4096)
    optimizer.step()
    state = optimizer.state[param]
    state["step"].fill_(2.0**24)
    state["exp_avg"].fill_(1.0)
    param.grad = torch.zeros(4096)
    for _ in range(60):
        optimizer.step()
    assert state["step"] == 2.0**24 + 60
    assert float(state["exp_avg"].float().mean()) == pytest.approx(0.9**60, rel=0.05)


@pytest.mark.parametrize("key", ["param", "exp_avg", "exp_avg_momentum_sq"])
def test_lazily_negated_tensors_are_refused(key):
    def negate(param, state):
        if key == "param":
            param.data = torch._neg_view(-param.data)
        else:
            state[key] = torch._neg_view(-state[key])

    for options in ({}, *BACKENDS.values()):
        with pytest.raises((RuntimeError, ValueError)):
            stepped(options, before=negate)


@pytest.mark.parametrize("grads", [False, True])
def test_parameters_that_share_memory_are_updated_in_order(grads):
    """Parameters with each other, or each with the gradient of the one before it."""

    def walk(threads):
        torch.set_num_threads(threads)
        base = torch.linspace(-1, 1, 400_000)
        starts = range(0, 400_000, 12_500) if grads else (0, 7, 100_000)
        size = 12_500 if grads else 200_000
        params = [torch.nn.Parameter(base[start : start + size]) for start in starts]
        optimizer = AdaMomentum(params, lr=0.1, weight_decay=0.1, fused=True)
        for i, param in enumerate(params):
            param.grad = params[i - 1].data if grads else torch.cos(torch.arange(float(size)))
        for _ in range(5):
            optimizer.step()
        return base

    before = torch.get_num_threads()
    try:
        alone = walk(1)
        assert all(torch.equal(alone, walk(2)) for _ in range(5))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("options", [{}, {"nesterov": True}, {"debias_momentum": True}], ids=str)
def test_a_large_lr_times_a_large_gradient_does_not_overflow(options):
    for backend in BACKENDS.values():
        found = stepped(backend, start=(1.0,), grad=(1e37,), lr=100.0, **options)
        assert found.tolist() == [1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_misaligned_tensors_go_to_another_backend(dtype):
    def misaligned():
        raw = bytearray(5 * dtype.itemsize + 1)
        view = torch.frombuffer(raw, dtype=dtype, offset=1, count=5)
        return view.copy_(torch.arange(5.0))

    params = [torch.nn.Parameter(misaligned()), torch.nn.Parameter(torch.arange(5.0).to(dtype))]
    for param in params:
        optimizer = AdaMomentum([param], lr=0.1)
        param.grad = torch.ones_like(param)
        work, rest = _native.claim([param], optimizer.state, optimizer.param_groups[0])
        assert work is None  # no state yet
        optimizer.step()
        work, rest = _native.claim([param], optimizer.state, optimizer.param_groups[0])
        assert len(rest) == (param is params[0])
    torch.testing.assert_close(*params)


def test_moments_that_share_memory_go_to_another_backend():
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = AdaMomentum([param])
    param.grad = torch.ones(3)
    optimizer.step()
    state = optimizer.state[param]
    state["exp_avg_momentum_sq"] = state["exp_avg"]
    work, rest = _native.claim([param], optimizer.state, optimizer.param_groups[0])
    assert (work, len(rest)) == (None, 1)


def test_many_distinct_steps():
    params = [torch.nn.Parameter(torch.ones(1)) for _ in range(3000)]
    optimizer = AdaMomentum(params, lr=0.1, fused=True)
    for param in params:
        param.grad = torch.ones(1)
    optimizer.step()
    for i, param in enumerate(params):
        optimizer.state[param]["step"].fill_(i % 1500)
    optimizer.step()
    assert [float(optimizer.state[p]["step"]) for p in params] == [
        i % 1500 + 1 for i in range(3000)
    ]
    for i in range(1500):
        assert torch.equal(params[i], params[i + 1500])
    assert len(set(torch.cat(params).tolist())) > 100


COMPILERS = {
    "no compiler": ("", "it was not built: there is no C compiler ("),
    "no OpenMP": (
        'case "$*" in *-fopenmp*) echo "no -fopenmp" >&2; exit 1;; esac; exec cc "$@"',
        "it was built without OpenMP, so it uses one thread",
    ),
    "unsupported": (
        'echo "x.c:1: error: bad attribute" >&2; exit 1',
        "x.c:1: error: bad attribute",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", COMPILERS)
def test_the_reason_of_a_missing_kernel_is_recorded(fault, tmp_path):
    script, words = COMPILERS[fault]
    compiler = tmp_path / "compiler"
    if script:
        compiler.write_text(f"#!/bin/sh\n{script}\n")
        compiler.chmod(0o755)
    words_of_setup = ["--build-lib", str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *words_of_setup],
        cwd=ROOT,
        env={**os.environ, "CC": str(compiler)},
        capture_output=True,
        check=True,
    )
    note = tmp_path / "lib/adamomentum/torch/_cpu_build.txt"
    assert words in note.read_text()
    assert note.with_name("_cpu.abi3.so").exists() == (fault == "no OpenMP")


def test_the_recorded_reason_is_shown(monkeypatch, tmp_path):
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.py"))
    assert _native.build_note() == ""
    (tmp_path / "_cpu_build.txt").write_text("it was built without OpenMP\n")
    assert _native.build_note() == "it was built without OpenMP"
