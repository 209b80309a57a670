"""Builds the native kernel; everything else is in pyproject.toml.

The kernel is optional. If it cannot be built, or only without OpenMP, the reason is written beside
it, and `adamomentum.torch.backends()` shows it.
"""

import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

SOURCES = Path("src/adamomentum/torch")
NOTE = "_cpu_build.txt"
OPENMP = "-fopenmp"
KERNEL = Extension(
    "adamomentum.torch._cpu",
    sources=[str(SOURCES / name) for name in ("_cpu.c", "_cpu_kernel.c")],
    depends=[str(SOURCES / name) for name in ("_cpu.h", "_cpu_loops.h", "_cpu_step.h")],
    extra_compile_args=["-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", OPENMP],
    extra_link_args=[OPENMP, "-lm"],
    py_limited_api=True,
    optional=True,
)


class BuildKernel(build_ext):
    """Builds the extension with OpenMP, else without it, else records why not."""

    def build_extension(self, ext: Extension) -> None:
        """Build the extension; a failure is recorded, not raised."""
        note = Path(self.get_ext_fullpath(ext.name)).parent / NOTE
        note.unlink(missing_ok=True)
        try:
            super().build_extension(ext)
            return
        except (CCompilerError, ExecError, PlatformError):
            reason = self._explain(ext)
        with_openmp = ext.extra_compile_args, ext.extra_link_args
        ext.extra_compile_args, ext.extra_link_args = (
            [flag for flag in flags if flag != OPENMP] for flags in with_openmp
        )
        try:
            super().build_extension(ext)
            reason = "it was built without OpenMP, so it uses one thread"
        except (CCompilerError, ExecError, PlatformError):
            reason = f"it was not built: {self._explain(ext) or reason}"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(reason + "\n", encoding="utf-8")

    def copy_extensions_to_source(self) -> None:
        """Complete an editable installation, the note included."""
        super().copy_extensions_to_source()
        note = Path(self.get_ext_fullpath(KERNEL.name)).parent / NOTE
        (SOURCES / NOTE).unlink(missing_ok=True)
        if note.exists():
            shutil.copy(note, SOURCES / NOTE)

    def _explain(self, ext: Extension) -> str:
        """What the compiler says against the sources, in one sentence."""
        command = list(getattr(self.compiler, "compiler_so", None) or ["the C compiler"])
        if not shutil.which(command[0]):
            return f"there is no C compiler ({command[0]} was not found)"
        include = [f"-I{folder}" for folder in [*self.include_dirs, *ext.include_dirs]]
        for source in ext.sources:
            words = [*command, *ext.extra_compile_args, *include, "-fsyntax-only", source]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = done.stderr.splitlines()
                said = next((line for line in lines if "error" in line), "; ".join(lines[:1]))
                return f"{command[0]} cannot compile it ({said.strip()})"
        return f"{command[0]} cannot link it"


setup(ext_modules=[KERNEL], cmdclass={"build_ext": BuildKernel})
