"""Settings that must be in force before torch and triton are imported."""

import contextlib
import os
import signal

from hypothesis import settings

# Timings never fail a test, and the same commit is tested by the same examples.
settings.register_profile("project", deadline=None, max_examples=150, derandomize=True)
settings.load_profile("project")

# Without a GPU the Triton kernel runs in Triton's interpreter, on CPU tensors.
os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")

# What a shell runs in the background ignores Ctrl-C, and so would the processes that tests start in
# order to interrupt them.
with contextlib.suppress(ValueError):  # only the main thread may
    signal.signal(signal.SIGINT, signal.default_int_handler)
