"""What is released: a source distribution, the wheel made of it, and that it runs elsewhere."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import adamomentum

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone"),
]


def built(what, where, out):
    """The name of the distribution that setuptools makes of a folder, as pip would."""
    script = f"from setuptools import build_meta; print(build_meta.build_{what}({str(out)!r}))"
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=where, capture_output=True, text=True, check=True
    )
    return out / made.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source distribution of the committed files, and the wheel of that."""
    folder = tmp_path_factory.mktemp("dist")
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (folder / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "clone" / name).write_bytes((ROOT / name).read_bytes())
    sdist = built("sdist", folder / "clone", folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    return sdist, built("wheel", source, folder)


def test_the_source_holds_what_the_wheel_is_made_of(distributions):
    sdist, _ = distributions
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "constraints.txt"} <= names
    ends = (".c", ".h", "_kernel.c", "_loops.h", "_step.h")
    assert {f"src/adamomentum/torch/_cpu{end}" for end in ends} <= names
    assert not any(name.startswith(("tests", "results", "docs")) for name in names)


def test_the_wheel_holds_what_is_needed_and_nothing_else(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(archive.read(metadata).decode())
    modules = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.suffix in (".py", ".html", ".css", ".js", ".typed") and "egg-info" not in str(path)
    }
    assert modules <= names
    assert {"adamomentum/py.typed", "adamomentum_lab/py.typed"} <= names
    assert "adamomentum/torch/_cpu.abi3.so" in names  # one for all versions of Python
    rest = names - modules - {"adamomentum/torch/_cpu.abi3.so"}
    assert all(".dist-info/" in name for name in rest), rest
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert told["Version"] == adamomentum.__version__
    assert told["Requires-Python"] == ">=3.10"
    always = [need for need in told.get_all("Requires-Dist") if "extra ==" not in need]
    assert always == []  # no framework is forced on anybody


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text()
    version = re.search(r"^version: (.+)$", citation, re.MULTILINE)[1]
    assert adamomentum.__version__ in (version, f"{version}.dev0")
    changes = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if adamomentum.__version__ == version:
        assert re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", changes[0])
    else:
        assert changes[0] == "Unreleased"


def test_the_wheel_runs_by_itself(distributions, tmp_path):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "elsewhere").mkdir()

    def run(*words):
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path / "elsewhere",
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    script = "import adamomentum.torch as a; print(a.__file__, a.backends()['fused (CPU)'])"
    said = run("-c", script)
    assert said.startswith(str(tmp_path / "site"))
    assert said.endswith(" available\n")
    command = ("-c", "from adamomentum_lab.cli import main; main()")
    words = ("race", "digits_mlp", "--scale", "smoke", "--optimizers", "adam,adamomentum")
    said = run(*command, *words, "--trials", "0", "--seeds", "2")
    assert "A page of them: adamomentum report" in said
    assert "report.html" in run(*command, "report")
