"""A rehearsal before GPUs are paid for: full-size networks, a few updates, kill, resume, stop.

    python benchmarks/rehearsal.py [--devices 2] [--seconds 20] [workload ...]

Each workload is trained at the scale `full` under the protocol `paper`, in processes of its own:

1. SIGKILL after its first checkpoint in the middle of an epoch;
2. resumed: it must go on from that checkpoint, not from the start;
3. SIGTERM after a further checkpoint: it must save and end within --seconds, with status 130.

With --devices 2 two processes share the run (DDP, gloo). It prints a row for each workload, and
ends with status 1 if anything did not hold. It needs the data of the workloads, and no GPU.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from adamomentum_lab.training.checkpoints import Checkpoints

WORKLOADS = ("cifar10_vgg16", "cifar10_resnet34", "ptb_lstm1", "multi30k_transformer")


def start(workload: str, runs: Path, devices: int) -> subprocess.Popen[bytes]:
    words = ["train", workload, "--optimizer", "adamomentum", "--scale", "full"]
    words += ["--protocol", "paper", "--runs", str(runs), "--checkpoint-every", "1"]
    if devices > 1:
        words += ["--devices", str(devices), "--strategy", "ddp"]
    command = [sys.executable, "-m", "adamomentum_lab.cli", *words]
    with (runs.parent / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def updates(runs: Path) -> int:
    """Updates of the last checkpoint: all of the run, if it is in its first epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = [Checkpoints(file.parent).load() for file in runs.glob("*/last.ckpt")]
    found = [state["updates"] + state["update"] for state in states if state]
    return max(found, default=0)


def wait_for(process: subprocess.Popen[bytes], runs: Path, above: int, patience: float) -> int:
    """Wait for a checkpoint with more updates, and return how many."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and process.poll() is None:
        if (now := updates(runs)) > above:
            return now
        time.sleep(0.5)
    log = (runs.parent / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"no checkpoint in {patience:.0f} s:\n{log[-2000:]}")


def rehearse(workload: str, devices: int, seconds: float, patience: float) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        process = start(workload, runs, devices)
        try:
            killed = wait_for(process, runs, 1, patience)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed = updates(runs)
            process = start(workload, runs, devices)
            resumed = wait_for(process, runs, killed, patience)
            process.send_signal(signal.SIGTERM)
            sent = time.monotonic()
            status = process.wait(timeout=patience)
            took = time.monotonic() - sent
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        stopped = updates(runs)
        size = max(file.stat().st_size for file in runs.glob("*/last.ckpt")) / 1e6
    held = status == 130 and took <= seconds and stopped >= resumed > killed
    row = f"| `{workload}` | {devices} | {killed} | {resumed} | {stopped} | {took:.1f} | {status} "
    return f"{row}| {size:,.0f} | {'yes' if held else '**no**'} |", held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="to answer SIGTERM")
    parser.add_argument("--patience", type=float, default=900.0, help="for each checkpoint")
    given = parser.parse_args()
    print("| workload | devices | updates when killed | resumed | stopped | s to stop | status "
          "| checkpoint, MB | held |")  # fmt: skip
    print("| --- " * 9 + "|")
    all_held = True
    for workload in given.workloads:
        row, held = rehearse(workload, given.devices, given.seconds, given.patience)
        print(row, flush=True)
        all_held &= held
    return 0 if all_held else 1


if __name__ == "__main__":
    raise SystemExit(main())
