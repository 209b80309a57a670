"""Settings that must be in force before torch and triton are imported."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from hypothesis import settings

# Timings never fail a test, and the same commit is tested by the same examples.
settings.register_profile("project", deadline=None, max_examples=150, derandomize=True)
settings.load_profile("project")

# Without a GPU the Triton kernel runs in Triton's interpreter, on CPU tensors.
os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")

# Some virtual machines announce AMX and have none: there torch's products in bfloat16 end the
# process with an illegal instruction. oneDNN then is told to do without.
_PRODUCT = "import torch; a = torch.ones(64, 64).bfloat16(); torch.nn.functional.linear(a, a)"
_CPU = Path("/proc/cpuinfo")
if "ONEDNN_MAX_CPU_ISA" not in os.environ and _CPU.exists() and "amx_bf16" in _CPU.read_text():
    done = subprocess.run([sys.executable, "-c", _PRODUCT], capture_output=True, check=False)
    if done.returncode == -signal.SIGILL:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"

# What a shell runs in the background ignores Ctrl-C, and so would the processes that tests start in
# order to interrupt them.
with contextlib.suppress(ValueError):  # only the main thread may
    signal.signal(signal.SIGINT, signal.default_int_handler)
