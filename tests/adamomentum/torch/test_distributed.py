"""DTensors, in one process; test_processes.py has two."""

import copy

import pytest
import torch
from torch import nn

from adamomentum import AdaMomentum

distributed = pytest.importorskip("torch.distributed")


@pytest.fixture
def mesh():
    from torch.distributed.device_mesh import init_device_mesh

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")  # torch's own, of FSDP on the CPU
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"foreach": True},
        {"foreach": False},
        {"fused": True},
        {"amsgrad": True, "nesterov": True},
        {"stochastic_rounding": True},
        {"state_dtype": torch.bfloat16},
        {"stochastic_rounding": True, "foreach": True},
        {"state_dtype": torch.bfloat16, "foreach": False},
    ],
    ids=str,
)
def test_shards_beside_plain_tensors(mesh, dtype, options):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).to(dtype)
    sharded = copy.deepcopy(plain)
    fully_shard(sharded[0], mesh=mesh)
    optimizers = [AdaMomentum(m.parameters(), lr=1e-2, **options) for m in (plain, sharded)]
    for _ in range(5):
        for model, optimizer in zip((plain, sharded), optimizers, strict=True):
            optimizer.zero_grad()
            model(torch.ones(2, 3, dtype=dtype)).sum().backward()
            optimizer.step()
    for a, b in zip(plain.parameters(), sharded.parameters(), strict=True):
        b = b.full_tensor() if hasattr(b, "full_tensor") else b
        torch.testing.assert_close(a, b)
    assert type(optimizers[1].state[sharded[0].weight]["exp_avg"]) is type(sharded[0].weight.data)


def test_distributed_state_dicts_take_every_option():
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    model = nn.Linear(3, 2)
    optimizer = AdaMomentum(model.parameters(), state_dtype=torch.bfloat16, amsgrad=True)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    saved = get_optimizer_state_dict(model, optimizer, options=options)
    assert saved["param_groups"][0]["state_dtype"] == "bfloat16"
