"""Accelerate, against the plain loop."""

from contextlib import nullcontext

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import no_decay_groups
from tests.ecosystem.runs import assert_same, assert_same_state, batch, loss_of, network

accelerate = pytest.importorskip("accelerate")


@pytest.fixture(autouse=True)
def fresh():
    """Accelerate keeps its settings for the whole process."""
    reset = accelerate.state.AcceleratorState._reset_state
    reset(True)
    yield
    reset(True)


def rows():
    return torch.cat([batch(step) for step in range(10)])


def prepared(mixed="no", accumulate=1):
    accelerator = accelerate.Accelerator(
        cpu=True, mixed_precision=mixed, gradient_accumulation_steps=accumulate
    )
    model = network()
    optimizer = AdaMomentum(no_decay_groups(model, 0.1), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    loader = torch.utils.data.DataLoader(rows(), batch_size=8)
    return accelerator, *accelerator.prepare(model, optimizer, schedule, loader)


def run(accelerator, model, optimizer, schedule, loader, clip=None):
    for x in loader:
        with accelerator.accumulate(model):
            accelerator.backward(loss_of(model, x))
            if clip and accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def plain_run(epochs=1, mixed="no", accumulate=1, clip=None):
    model = network()
    optimizer = AdaMomentum(no_decay_groups(model, 0.1), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    for _ in range(epochs):
        for i, x in enumerate(rows().split(8), 1):
            autocast = torch.autocast("cpu", torch.bfloat16) if mixed == "bf16" else nullcontext()
            with autocast:
                out = model(x).float()
            loss = (out - x[:, :3] * x[:, 1:4]).square().mean()
            (loss / accumulate).backward()
            if i % accumulate == 0:
                if clip:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    return model, optimizer


@pytest.mark.parametrize(
    "options",
    [{}, {"accumulate": 2}, {"mixed": "bf16"}, {"mixed": "bf16", "accumulate": 5, "clip": 0.1}],
    ids=str,
)
def test_it_is_the_plain_loop(options):
    settings = {key: value for key, value in options.items() if key != "clip"}
    accelerator, model, optimizer, schedule, loader = prepared(**settings)
    run(accelerator, model, optimizer, schedule, loader, options.get("clip"))
    plain, other = plain_run(**options)
    assert_same(accelerator.unwrap_model(model), plain)
    assert_same_state(optimizer.optimizer, other)
    moments = {state["exp_avg"].dtype for state in optimizer.state.values()}
    assert moments == {torch.float32}


def test_fp16_is_float32_on_the_cpu():
    """Accelerate has no autocast and no GradScaler for it there, and says nothing."""
    accelerator, model, *rest = prepared(mixed="fp16")
    assert accelerator.scaler is None
    run(accelerator, model, *rest)
    assert_same(accelerator.unwrap_model(model), plain_run()[0])


def test_a_saved_state_continues_bit_for_bit(tmp_path):
    accelerator, *objects = prepared()
    run(accelerator, *objects)
    accelerator.save_state(tmp_path / "state")
    accelerate.state.AcceleratorState._reset_state(True)

    accelerator, model, optimizer, schedule, loader = prepared()
    accelerator.load_state(tmp_path / "state")
    run(accelerator, model, optimizer, schedule, loader)
    plain, other = plain_run(epochs=2)
    assert_same(accelerator.unwrap_model(model), plain)
    assert_same_state(optimizer.optimizer, other)
