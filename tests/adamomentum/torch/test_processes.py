"""Two real processes: what torch.distributed shards, averages and saves is what one would have.

Each check runs in both processes of a pair that is started once, since starting takes seconds.
"""

import copy
import multiprocessing
import os
import subprocess
import sys
import traceback
from contextlib import nullcontext
from datetime import timedelta

import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum
from tests.test_docs import BLOCK, ROOT

distributed = pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.skipif(not distributed.is_available(), reason="torch without distributed")

WORLD, SECONDS = 2, 300
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
CHECKS = []
BACKENDS = [{"foreach": False}, {"foreach": True}, {"fused": True}, {}]
CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # float32; a mean over halves is rounded differently
OPTIONS = {"lr": 1e-2, "weight_decay": 0.1, "amsgrad": True}


def check(function):
    CHECKS.append(function)
    return function


class Pair:
    """Two processes of one gloo group on the loopback device, which run what they are sent."""

    def __init__(self, folder):
        context = multiprocessing.get_context("spawn")
        self.ends, self.processes = [], []
        for rank in range(WORLD):
            end, other = context.Pipe()
            arguments = (other, rank, str(folder / "store"))
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            other.close()
            self.ends.append(end)
            self.processes.append(process)

    def run(self, function, *arguments):
        for end in self.ends:
            end.send((function, arguments))
        answers = [end.recv() if end.poll(SECONDS) else "does not answer" for end in self.ends]
        errors = [f"process {rank}: {answer}" for rank, answer in enumerate(answers) if answer]
        if errors:
            pytest.fail("\n".join(errors), pytrace=False)

    def close(self):
        for end in self.ends:
            end.close()  # which ends the loop of _serve
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()


def _serve(end, rank, store):
    os.environ.update(LOOPBACK)
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=WORLD,
        timeout=timedelta(seconds=SECONDS),
    )
    while True:
        try:
            function, arguments = end.recv()
        except EOFError:
            distributed.destroy_process_group()
            return
        try:
            function(rank, *arguments)
            end.send("")
        except BaseException:
            end.send(traceback.format_exc())


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    pair = Pair(tmp_path_factory.mktemp("pair"))
    yield pair
    pair.close()


def network():
    """Of odd sizes, so that shards are uneven."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def batch(step, size=8):
    return torch.randn(size, 5, generator=torch.Generator().manual_seed(step))


def train(model, optimizer, steps, part=slice(None)):
    for step in steps:
        optimizer.zero_grad()
        model(batch(step)[part]).square().mean().backward()
        optimizer.step()


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def assert_close(model, other, **tolerance):
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(full(a), full(b), **(tolerance or CLOSE))


def assert_same_everywhere(model):
    for param in model.parameters():
        others = [torch.empty_like(param) for _ in range(WORLD)]
        distributed.all_gather(others, param.detach())
        assert torch.equal(*others)


def sharded(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (WORLD,))
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


@check
def ddp_is_one_process_with_the_joined_batch(rank, folder):
    for backend in BACKENDS:
        plain, mine = network(), nn.parallel.DistributedDataParallel(network())
        train(plain, AdaMomentum(plain.parameters(), **OPTIONS, **backend), range(10))
        optimizer = AdaMomentum(mine.parameters(), **OPTIONS, **backend)
        train(mine, optimizer, range(10), part=slice(rank, None, WORLD))
        assert_close(mine.module, plain)
        assert_same_everywhere(mine)


@check
def accumulated_gradients_are_those_of_one_batch(rank, folder):
    plain, mine = network(), nn.parallel.DistributedDataParallel(network())
    train(plain, AdaMomentum(plain.parameters(), **OPTIONS), range(10))
    optimizer = AdaMomentum(mine.parameters(), **OPTIONS)
    for step in range(10):
        optimizer.zero_grad()
        parts = batch(step)[rank::WORLD].split(1)
        for i, part in enumerate(parts):
            with nullcontext() if i == len(parts) - 1 else mine.no_sync():
                (mine(part).square().mean() / len(parts)).backward()
        optimizer.step()
    assert_close(mine.module, plain)
    assert_same_everywhere(mine)


@check
def fsdp2_is_the_unsharded_run(rank, folder):
    from torch.distributed.tensor import DTensor

    for backend in BACKENDS:
        plain, mine = network(), sharded(network())
        train(plain, AdaMomentum(plain.parameters(), **OPTIONS, **backend), range(10))
        optimizer = AdaMomentum(mine.parameters(), **OPTIONS, **backend)
        train(mine, optimizer, range(10), part=slice(rank, None, WORLD))
        assert_close(mine, plain)
        for param in mine.parameters():
            assert param.to_local().numel() < param.numel()
            state = optimizer.state[param]
            for key in ("exp_avg", "exp_avg_momentum_sq", "max_exp_avg_momentum_sq"):
                assert isinstance(state[key], DTensor)
                assert state[key].placements == param.placements


@check
def sharding_changes_no_bit_of_a_step(rank, folder):
    for backend in BACKENDS:
        plain, mine = network(), sharded(network())
        optimizer = AdaMomentum(mine.parameters(), **OPTIONS, **backend)
        other = AdaMomentum(plain.parameters(), **OPTIONS, **backend)
        for step in range(10):
            optimizer.zero_grad()
            mine(batch(step)[rank::WORLD]).square().mean().backward()
            for a, b in zip(mine.parameters(), plain.parameters(), strict=True):
                b.grad = full(a.grad)
            optimizer.step()
            other.step()
            assert_close(mine, plain, rtol=0, atol=0)


@check
def a_distributed_checkpoint_goes_from_two_to_one_and_back(rank, folder):
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def state_of(model, optimizer):
        return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))

    def restored(model, name, alone=False):
        # torch reads what there is to be filled: without amsgrad, no maximum.
        optimizer = AdaMomentum(model.parameters(), amsgrad=True)
        state = state_of(model, optimizer)
        checkpoint.load(state, checkpoint_id=folder / name, no_dist=alone)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        return optimizer

    def assert_same_state(model, optimizer, other, theirs):
        assert_close(model, other, rtol=0, atol=0)
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            for key, value in optimizer.state[a].items():
                assert torch.equal(full(value), full(theirs.state[b][key]))
        ignored = ("params", "param_names")
        for group, saved in zip(optimizer.param_groups, theirs.param_groups, strict=True):
            assert {k: v for k, v in group.items() if k not in ignored} == {
                k: v for k, v in saved.items() if k not in ignored
            }

    mine = sharded(network())
    optimizer = AdaMomentum(mine.parameters(), **OPTIONS)
    train(mine, optimizer, range(5), part=slice(rank, None, WORLD))
    checkpoint.save(state_of(mine, optimizer), checkpoint_id=folder / "two")

    alone = network()
    its = restored(alone, "two", alone=True)
    assert_same_state(mine, optimizer, alone, its)
    if rank == 0:
        checkpoint.save(state_of(alone, its), checkpoint_id=folder / "one", no_dist=True)
    distributed.barrier()

    again = sharded(network())
    assert_same_state(mine, optimizer, again, others := restored(again, "one"))
    train(mine, optimizer, range(5, 10), part=slice(rank, None, WORLD))
    train(again, others, range(5, 10), part=slice(rank, None, WORLD))
    assert_close(mine, again, rtol=0, atol=0)
    train(alone, its, range(5, 10))
    assert_close(mine, alone)


@check
def zero_redundancy_changes_no_bit(rank, folder):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    for backend in BACKENDS:
        options = {**OPTIONS, **backend}
        plain, mine = (nn.parallel.DistributedDataParallel(network()) for _ in range(2))
        other = AdaMomentum(plain.parameters(), **options)
        optimizer = ZeroRedundancyOptimizer(
            mine.parameters(), optimizer_class=AdaMomentum, **options
        )
        for model, its in ((plain, other), (mine, optimizer)):
            train(model, its, range(10), part=slice(rank, None, WORLD))
        assert_close(mine, plain, rtol=0, atol=0)
        assert 0 < len(optimizer.optim.state) < len(other.state)

        optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            alone = copy.deepcopy(mine.module)
            whole = AdaMomentum(alone.parameters())
            whole.load_state_dict(optimizer.state_dict())
            for a, b in zip(alone.parameters(), plain.parameters(), strict=True):
                for key, value in other.state[b].items():
                    assert torch.equal(whole.state[a][key], value)


def release_gradients(model, **options):
    """Step each parameter, and free its gradient, while the backward pass goes on."""
    own = {param: AdaMomentum([param], **options) for param in model.parameters()}

    def release(param):
        own[param].step()
        own[param].zero_grad()

    for param in model.parameters():
        param.register_post_accumulate_grad_hook(release)


@check
def gradients_of_shards_can_be_released(rank, folder):
    plain, mine = sharded(network()), sharded(network())
    optimizer = AdaMomentum(plain.parameters(), **OPTIONS)
    release_gradients(mine, **OPTIONS)
    for step in range(5):
        train(plain, optimizer, range(step, step + 1), part=slice(rank, None, WORLD))
        mine(batch(step)[rank::WORLD]).square().mean().backward()
        assert all(param.grad is None for param in mine.parameters())
    assert_close(mine, plain, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda function: function.__name__)
def test_on_two_processes(pair, check, tmp_path):
    pair.run(check, tmp_path)


@pytest.mark.slow
def test_the_page_of_the_guide_runs_on_two_processes(tmp_path):
    page = (ROOT / "docs" / "guide" / "several-devices.md").read_text()
    (tmp_path / "train.py").write_text("".join(BLOCK.findall(page)))
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(WORLD), "train.py"]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tmp_path,
        env={**os.environ, **LOOPBACK, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        *("train.py", "zero.pt", "step5", "released0.pt", "released1.pt")
    }


@pytest.mark.parametrize("options", BACKENDS, ids=str)
def test_gradient_release_is_the_plain_step(options):
    plain, mine = network(), network()
    optimizer = AdaMomentum(plain.parameters(), **OPTIONS, **options)
    release_gradients(mine, **OPTIONS, **options)
    for step in range(10):
        train(plain, optimizer, range(step, step + 1))
        mine(batch(step)).square().mean().backward()
        assert all(param.grad is None for param in mine.parameters())
    assert_close(mine, plain, rtol=0, atol=0)
