"""Settings that must be in force before torch and triton are imported."""

import os

# Without a GPU the Triton kernel runs in Triton's interpreter, on CPU tensors.
os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")
