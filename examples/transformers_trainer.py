"""Hugging Face Trainer: a small GPT-2 learns to spell from Python's own manual.

pip install -c constraints.txt '.[torch]' transformers accelerate
python examples/transformers_trainer.py [FOLDER]

Half a minute on one core. Kill it and start it again: it continues in the middle.
"""

import sys
from pydoc_data.topics import topics  # half a megabyte of English, in every Python

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

from adamomentum import AdaMomentum
from adamomentum.torch import lr_from_adam

LENGTH, STEPS = 64, 150


def windows():
    """The manual as bytes, cut into pieces; the last 200 are for the test."""
    manual = "\n".join(topics.values()).encode()
    ids = torch.frombuffer(bytearray(manual), dtype=torch.uint8).long()
    pieces = ids[: len(ids) // LENGTH * LENGTH].view(-1, LENGTH)
    pieces = [{"input_ids": piece, "labels": piece} for piece in pieces]
    return pieces[:-200], pieces[-200:]


def main(folder="trainer-run"):
    set_seed(0)
    config = GPT2Config(
        vocab_size=256, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    train, test = windows()
    trainer = Trainer(
        GPT2LMHeadModel(config),
        TrainingArguments(
            folder,
            max_steps=STEPS,
            warmup_steps=30,  # the first step is ten times lr
            lr_scheduler_type="cosine",
            per_device_train_batch_size=16,
            weight_decay=0.04,  # AdamW's 0.01 times 4.36; the Trainer spares biases and norms
            save_steps=50,
            logging_steps=25,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=train,
        eval_dataset=test,
        # lr goes here: the Trainer does not hand its learning_rate to a class of yours. AdamW does
        # well at 4e-3 on a model this small; where noise dominates, steps are 4.36 times as long.
        optimizer_cls_and_kwargs=(AdaMomentum, {"lr": lr_from_adam(4e-3)}),
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
    trainer.save_model(folder)
    print(f"test loss {trainer.evaluate()['eval_loss']} per byte")


if __name__ == "__main__":
    main(*sys.argv[1:])
