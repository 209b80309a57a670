"""Several parts of a model, their state by name, and torchtitan's container of optimizers.

Its older versions called torch's get_optimizer_state_dict and set_optimizer_state_dict for each
part, which is tried here in torch alone; newer ones do the same by themselves.
"""

import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum
from tests.adamomentum.torch.test_processes import Pair
from tests.ecosystem.runs import batch, loss_of, network

distributed = pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.skipif(not distributed.is_available(), reason="torch without distributed")
OPTIONS = {"lr": 1e-2, "weight_decay": 0.1, "amsgrad": True, "foreach": True}
OTHERS = {**OPTIONS, "lr": 1.0}  # which the checkpoint replaces


def parts_of(model):
    """As a pipeline has them: modules of their own, whose names do not collide."""
    names = list(dict(model.named_children()))
    return [
        nn.ModuleDict({name: model.get_submodule(name) for name in some})
        for some in (names[:2], names[2:])
    ]


class Several:
    """An optimizer for each part, and one flat state by name for all."""

    def __init__(self, parts, **options):
        self.parts = parts
        self.optimizers = [AdaMomentum(part.parameters(), **options) for part in parts]

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def state_dict(self):
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            get_optimizer_state_dict,
        )

        options = StateDictOptions(flatten_optimizer_state_dict=True)
        state = {}
        for part, optimizer in zip(self.parts, self.optimizers, strict=True):
            own = get_optimizer_state_dict(part, optimizer, options=options)
            assert not state.keys() & own.keys()
            state.update(own)
        return state

    def load_state_dict(self, state):
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            set_optimizer_state_dict,
        )

        options = StateDictOptions(flatten_optimizer_state_dict=True)
        for part, optimizer in zip(self.parts, self.optimizers, strict=True):
            set_optimizer_state_dict(part, optimizer, optim_state_dict=state, options=options)


def titan(parts, implementation="foreach", **options):
    """torchtitan's container; it knows its optimizers by name, and a subclass adds one."""
    components = pytest.importorskip("torchtitan.components.optimizer")

    class Container(components.OptimizersContainer):
        @staticmethod
        def _resolve_optimizer_factory(name):
            own = components.OptimizersContainer._resolve_optimizer_factory
            return AdaMomentum if name == "AdaMomentum" else own(name)

    kinds = [(r"bias$|^1\.", {**options, "weight_decay": 0.0}), (".*", options)]
    groups = [
        components.ParamGroupConfig(
            pattern=pattern, optimizer_name="AdaMomentum", optimizer_kwargs=kwargs
        )
        for pattern, kwargs in kinds
    ]
    config = Container.Config(param_groups=groups, implementation=implementation)
    return Container(config, model_parts=parts)


CONTAINERS = {"torch": Several, "torchtitan": titan}


def train(model, optimizer, steps):
    for step in steps:
        model.zero_grad()
        loss_of(model, batch(step)).backward()  # the same in every process, as is their mean
        optimizer.step()


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def assert_same(model, other):
    for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(full(a), full(b)), name


def save(model, optimizer, folder, alone):
    from torch.distributed import checkpoint

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    checkpoint.save(state, checkpoint_id=folder, no_dist=alone)


def load(model, optimizer, folder, alone):
    from torch.distributed import checkpoint

    # Of copies, because a checkpoint is read into the tensors that are there.
    own = {
        key: value.clone() if isinstance(value, torch.Tensor) else value
        for key, value in optimizer.state_dict().items()
    }
    state = {"model": model.state_dict(), "optimizer": own}
    checkpoint.load(state, checkpoint_id=folder, no_dist=alone)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


@pytest.mark.filterwarnings("ignore")  # torch's own, of checkpoints in one process
@pytest.mark.parametrize("container", CONTAINERS)
def test_parts_are_the_whole_and_continue_bit_for_bit(container, tmp_path):
    model, whole = network(), network()
    optimizer = CONTAINERS[container](parts_of(model), **OPTIONS)
    assert len(optimizer.optimizers) == 2
    names = dict(whole.named_parameters())
    apart = [] if container == "torch" else [n for n in names if n[0] == "1" or "bias" in n]
    kept = [param for name, param in names.items() if name not in apart]
    spared = [names[name] for name in apart]
    groups = [{"params": kept}]
    if spared:
        groups.append({"params": spared, "weight_decay": 0.0})
    other = AdaMomentum(groups, **OPTIONS)
    train(model, optimizer, range(5))
    train(whole, other, range(5))
    assert_same(model, whole)

    state = optimizer.state_dict()
    assert {"state.0.weight.exp_avg", "state.3.bias.max_exp_avg_momentum_sq"} <= state.keys()
    save(model, optimizer, tmp_path, alone=True)
    again = network()
    its = CONTAINERS[container](parts_of(again), **OTHERS)
    load(again, its, tmp_path, alone=True)
    train(again, its, range(5, 10))
    train(whole, other, range(5, 10))
    assert_same(again, whole)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("implementation", ["for-loop", "foreach", "fused"])
def test_its_implementations_are_ours(implementation):
    model, plain = network(), network()
    train(model, titan(parts_of(model), implementation, lr=1e-2), range(5))
    given = {"for-loop": {"foreach": False}}.get(implementation, {implementation: True})
    train(plain, AdaMomentum(plain.parameters(), lr=1e-2, **given), range(5))
    assert_same(model, plain)


@pytest.mark.filterwarnings("ignore")
def test_moments_in_bfloat16_continue_bit_for_bit(tmp_path):
    model, again = network(), network()
    options = {"lr": 1e-2, "state_dtype": torch.bfloat16}
    optimizer, its = (titan(parts_of(each), **options) for each in (model, again))
    train(model, optimizer, range(5))
    assert optimizer.state_dict()["state.0.weight.exp_avg"].dtype is torch.bfloat16
    save(model, optimizer, tmp_path, alone=True)
    load(again, its, tmp_path, alone=True)
    for each, own in ((model, optimizer), (again, its)):
        train(each, own, range(5, 10))
    assert_same(model, again)


def sharded(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    for part in (model[0], model[3]):
        fully_shard(part, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def from_two_to_one_and_back(rank, container, folder):
    make, alone = CONTAINERS[container], network()
    mine = sharded(network())
    optimizer = make(parts_of(mine), **OPTIONS)
    train(mine, optimizer, range(5))
    save(mine, optimizer, folder / "two", alone=False)

    its = make(parts_of(alone), **OTHERS)
    load(alone, its, folder / "two", alone=True)
    assert_same(mine, alone)
    train(mine, optimizer, range(5, 10))
    train(alone, its, range(5, 10))
    assert_same(mine, alone)

    if rank == 0:
        save(alone, its, folder / "one", alone=True)
    distributed.barrier()
    again = sharded(network())
    others = make(parts_of(again), **OTHERS)
    load(again, others, folder / "one", alone=False)
    train(again, others, range(10, 15))
    train(alone, its, range(10, 15))
    assert_same(again, alone)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    pair = Pair(tmp_path_factory.mktemp("pair"))
    yield pair
    pair.close()


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
def test_shards_go_from_two_to_one_and_back_bit_for_bit(pair, container, tmp_path):
    if container == "torchtitan":
        pytest.importorskip("torchtitan.components.optimizer")
    pair.run(from_two_to_one_and_back, container, tmp_path)
