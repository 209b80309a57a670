"""The Trainer of transformers, against the plain loop."""

import pytest
import torch

from adamomentum import AdaMomentum

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
STEPS, HALF, WARMUP, SIZE, DECAY, CLIP = 6, 3, 2, 4, 0.1, 0.5
ROWS = [{"input_ids": torch.arange(8) + i, "labels": torch.arange(8) + i} for i in range(32)]


def network():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=8, n_embd=8, n_layer=1, n_head=2,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, train_dataset=None):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def trained(folder, options=None, resume=None, **arguments):
    trainer = InOrder(
        network(),
        transformers.TrainingArguments(
            str(folder),
            max_steps=STEPS,
            warmup_steps=WARMUP,
            weight_decay=DECAY,
            max_grad_norm=CLIP,
            per_device_train_batch_size=SIZE,
            save_steps=HALF,
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
            **arguments,
        ),
        train_dataset=ROWS,
        optimizer_cls_and_kwargs=(AdaMomentum, {"lr": 1e-2, **(options or {})}),
    )
    trainer.train(resume_from_checkpoint=resume and str(resume))
    return trainer


def plain_run(groups):
    """Without the Trainer: the same groups, warm-up, linear decay and clipping."""
    model = network()
    names = dict(model.named_parameters())
    optimizer = AdaMomentum(
        [
            {"params": [names[name] for name in group], "weight_decay": decay}
            for group, decay in zip(groups, (DECAY, 0.0), strict=True)
        ],
        lr=1e-2,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: step / WARMUP if step < WARMUP else (STEPS - step) / (STEPS - WARMUP),
    )
    for step in range(STEPS):
        rows = torch.stack([row["input_ids"] for row in ROWS[step * SIZE : (step + 1) * SIZE]])
        # The Trainer divides by the number of labels.
        count = torch.tensor(rows.numel())
        model(input_ids=rows, labels=rows, num_items_in_batch=count).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model


def assert_same(model, other):
    for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def test_it_is_the_plain_loop_and_continues_bit_for_bit(tmp_path):
    trainer = trained(tmp_path / "whole")
    model = trainer.model
    assert isinstance(trainer.optimizer.optimizer, AdaMomentum)
    names = {param: name for name, param in model.named_parameters()}
    groups = [[names[param] for param in g["params"]] for g in trainer.optimizer.param_groups]
    assert [name for name in groups[0] if "ln_" in name or "bias" in name] == []
    assert_same(model, plain_run(groups))

    again = trained(tmp_path / "again", resume=tmp_path / "whole" / f"checkpoint-{HALF}")
    assert again.state.global_step == STEPS
    assert_same(model, again.model)
    first, second = (each.optimizer.optimizer for each in (trainer, again))
    for a, b in zip(model.parameters(), again.model.parameters(), strict=True):
        for key, value in first.state[a].items():
            assert torch.equal(value, second.state[b][key])


def test_accumulated_batches_in_bfloat16(tmp_path):
    trainer = trained(tmp_path, {"amsgrad": True}, gradient_accumulation_steps=2, bf16=True)
    states = trainer.optimizer.optimizer.state.values()
    assert {state["step"].item() for state in states} == {STEPS}
    assert {state["max_exp_avg_momentum_sq"].dtype for state in states} == {torch.float32}


def test_options_of_the_group_come_from_the_arguments(tmp_path):
    """lr from the kwargs, weight decay from the arguments."""
    groups = trained(tmp_path, {"weight_decay": 5.0}, learning_rate=7.0).optimizer.param_groups
    assert [group["weight_decay"] for group in groups] == [DECAY, 0.0]
    assert [group["initial_lr"] for group in groups] == [1e-2, 1e-2]
