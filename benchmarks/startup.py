"""CPU seconds that commands take before they do anything, and what imports cost.

python benchmarks/startup.py
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "adamomentum_lab.cli"]
CASES = {
    "python": [sys.executable, "-c", ""],
    "--help": [*COMMAND, "--help"],
    "race --help": [*COMMAND, "race", "--help"],
    "a mistyped workload": [*COMMAND, "race", "digits_cn"],
    "a mistyped optimizer": [*COMMAND, "race", "digits_cnn", "--optimizers", "adamm"],
    "report": [*COMMAND, "report", "--runs", str(ROOT / "results"), "--out", "report.html"],
    "list": [*COMMAND, "list"],
    "race --dry-run": [*COMMAND, "race", "digits_cnn", "--dry-run"],
    "import adamomentum": [sys.executable, "-c", "import adamomentum"],
    "import torch": [sys.executable, "-c", "import torch"],
    "a worker's imports": [sys.executable, "-c", "import adamomentum_lab.engine.driver"],
    "import lightning_fabric": [sys.executable, "-c", "import lightning_fabric"],
}


def cpu_seconds(words: list[str], folder: str) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    print("| command | CPU s, median of 5 |\n| --- | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, words in CASES.items():
            times = [cpu_seconds(words, folder) for _ in range(6)][1:]  # the first reads the disk
            print(f"| {name} | {statistics.median(times):.2f} |", flush=True)


if __name__ == "__main__":
    main()
