"""Fuzz the native kernel under AddressSanitizer and UBSan, with every compiler that is there.

    python -m tools.fuzz [--cases 10000] [--compilers gcc,gcc-11,clang]

Each compiler builds the kernel into a folder of its own, and runs tests/adamomentum/torch/fuzz.py
with it, half of the cases on one thread and half on two.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src/adamomentum/torch"
FLAGS = (
    *("-std=gnu11", "-g", "-O2", "-fno-math-errno", "-fno-trapping-math", "-fopenmp"),
    *("-fPIC", "-shared", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)


def build(compiler: str, folder: Path) -> str:
    """Copy the package with an instrumented kernel; returns the libraries it needs first."""
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("*.so", "*.egg-info"))
    clang = "clang" in compiler
    words = [compiler, *FLAGS, *(["-shared-libasan"] if clang else [])]
    words += [f"-I{sysconfig.get_paths()['include']}"]
    words += [str(SOURCES / name) for name in ("_cpu.c", "_cpu_kernel.c")]
    words += ["-lm", "-o", str(folder / "adamomentum/torch/_cpu.abi3.so")]
    if subprocess.run(words, check=False).returncode:  # clang's OpenMP is a package of its own
        print(f"{compiler}: OpenMP is missing, so that all cases run on one thread")
        subprocess.run([word for word in words if word != "-fopenmp"], check=True)
    # torch throws C++ exceptions, which the sanitizer must know of from the start.
    names = ["libclang_rt.asan-x86_64.so" if clang else "libasan.so", "libstdc++.so.6"]
    found = [
        subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()
        for name in names
    ]
    return " ".join(str(Path(file).resolve()) for file in found)


def fuzz(folder: Path, libraries: str, seed: int, cases: int, threads: int) -> bool:
    """Whether all cases passed and the sanitizers had nothing to say."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "LD_PRELOAD": libraries,
        # Python frees little of what it allocates at its end.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": str(threads),
        "PYTHONMALLOC": "malloc",
    }
    words = ["-m", "tests.adamomentum.torch.fuzz", "--cases", str(cases), "--seed", str(seed)]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, check=False)
    if done.returncode < 0:  # without a word about any case
        print(f"killed by {signal.Signals(-done.returncode).name}; no verdict", flush=True)
    return done.returncode == 0


def main() -> None:
    """Run the cases with each compiler."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, help="for each compiler")
    parser.add_argument("--compilers", default="gcc,gcc-11,clang")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    words = parser.parse_args()
    compilers = words.compilers.split(",")
    there = [compiler for compiler in compilers if shutil.which(compiler)]
    if missing := [compiler for compiler in compilers if compiler not in there]:
        print(f"not installed, left out: {', '.join(missing)}")
    good = bool(there)
    for compiler in there:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "src"
            libraries = build(compiler, package)
            for threads in (1, 2):
                cases = words.cases // 2
                seed = words.seed + (threads - 1) * cases
                print(f"{compiler}, {threads} thread(s), {cases} cases", flush=True)
                good &= fuzz(package, libraries, seed, cases, threads)
    sys.exit(not good)


if __name__ == "__main__":
    main()
