"""`shakespeare_gpt` with a quarter of the updates: a minute of one core a run."""

from adamomentum_paper.workloads.shakespeare_gpt import ShakespeareGPT


class ShakespeareGPTShort(ShakespeareGPT):
    """A GPT on the characters of Shakespeare's plays: as shakespeare_gpt, with 1,000 updates."""

    epochs = {"smoke": 1, "mini": 2, "full": 2}
    target = 2.02  # 3-grams (see shakespeare_gpt) reach 2.018 on validation
