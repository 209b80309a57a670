"""Lightning's Trainer and Fabric, against the plain loop."""

import pytest
import torch

from adamomentum import AdaMomentum
from adamomentum.torch import no_decay_groups
from tests.ecosystem.runs import assert_same, assert_same_state, batch, loss_of, network

pytestmark = [
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The .train_dataloader. does not have many workers"),
    pytest.mark.filterwarnings("ignore:GPU available but not used"),
    pytest.mark.filterwarnings("ignore:The .fit. method"),
]
CLIP = 0.1


def loader():
    rows = torch.cat([batch(step) for step in range(10)])
    return torch.utils.data.DataLoader(rows, batch_size=8)


def optimized(model):
    optimizer = AdaMomentum(no_decay_groups(model, 0.1), lr=1e-2)
    return optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=15)


def plain_run(epochs, accumulate=1, mixed=False):
    model = network()
    optimizer, schedule = optimized(model)
    for _ in range(epochs):
        for i, x in enumerate(loader(), 1):
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                loss = loss_of(model, x)
            (loss / accumulate).backward()
            if i % accumulate == 0:
                # In the order of the groups, in which Lightning adds up the norm.
                params = [param for group in optimizer.param_groups for param in group["params"]]
                torch.nn.utils.clip_grad_norm_(params, CLIP)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    return model, optimizer


def fitted(epochs, ckpt_path=None, **options):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, x):
            return loss_of(self.network, x)

        def configure_optimizers(self):
            optimizer, schedule = optimized(self)
            schedule = {"scheduler": schedule, "interval": "step"}
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        gradient_clip_val=CLIP,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(Module(), loader(), ckpt_path=ckpt_path)
    return trainer


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({}, {}),
        ({"accumulate_grad_batches": 2}, {"accumulate": 2}),
        ({"precision": "bf16-mixed"}, {"mixed": True}),
    ],
    ids=str,
)
def test_the_trainer_is_the_plain_loop(options, same):
    trainer = fitted(1, **options)
    model, optimizer = plain_run(1, **same)
    assert_same(trainer.lightning_module.network, model)
    assert_same_state(trainer.optimizers[0], optimizer)


def test_a_checkpoint_continues_bit_for_bit(tmp_path):
    fitted(1).save_checkpoint(tmp_path / "model.ckpt")
    trainer = fitted(2, ckpt_path=tmp_path / "model.ckpt")
    model, optimizer = plain_run(2)
    assert_same(trainer.lightning_module.network, model)
    assert_same_state(trainer.optimizers[0], optimizer)


def test_true_bfloat16_keeps_moments_in_float32():
    trainer = fitted(1, precision="bf16-true")
    dtypes = {param.dtype for param in trainer.lightning_module.parameters()}
    assert dtypes == {torch.bfloat16}
    states = trainer.optimizers[0].state.values()
    assert {state["exp_avg"].dtype for state in states} == {torch.float32}


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_fabric_is_the_plain_loop_and_continues_bit_for_bit(tmp_path, precision):
    lightning_fabric = pytest.importorskip("lightning_fabric")
    fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1, precision=precision)

    def started():
        model = network()
        optimizer, schedule = optimized(model)
        model, optimizer = fabric.setup(model, optimizer)
        return {"model": model, "optimizer": optimizer, "schedule": schedule}

    def epoch(model, optimizer, schedule):
        for x in fabric.setup_dataloaders(loader()):
            with fabric.autocast():
                loss = loss_of(model, x)
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=CLIP)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    first = started()
    epoch(**first)
    fabric.save(tmp_path / "state.ckpt", first)
    again = started()
    fabric.load(tmp_path / "state.ckpt", again)
    epoch(**again)
    model, optimizer = plain_run(2, mixed=precision == "bf16-mixed")
    assert_same(again["model"].module, model)
    assert_same_state(again["optimizer"].optimizer, optimizer)
