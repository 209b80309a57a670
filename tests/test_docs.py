"""Every Python example in README, guide and docstrings runs, in the order it is read; links lead
somewhere, and every public name is in the reference."""

import contextlib
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from adamomentum.torch import migrate, optimizer, settings
from adamomentum_lab.race.result import Result
from adamomentum_lab.report.verdicts import sentence

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What a page needs beside torch; it is skipped where that is not installed.
NEEDS = {
    "jax": ["optax"],
    "keras": ["keras"],
    "hugging-face": ["transformers", "accelerate"],
    "lightning": ["lightning"],
}
# Made while the site is built.
BUILT = {"results/races.html"}
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def pages_with_code():
    return [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", pages_with_code(), ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # Lightning's
@pytest.mark.filterwarnings("ignore:The .train_dataloader. does not have many workers")
@pytest.mark.filterwarnings("ignore:GPU available but not used")
def test_examples(page, tmp_path, monkeypatch):
    for package in NEEDS.get(page.stem, []):
        pytest.importorskip(package, reason=f"{page.name} needs {package}")
    monkeypatch.chdir(tmp_path)
    Path("results").symlink_to(ROOT / "results")
    text = page.read_text()
    scope = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        # Blank lines in front make a traceback point at the line of the page.
        code = compile("\n" * line + block.group(1), str(page), "exec")
        exec(code, scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in set(LINK.findall(page.read_text())) - BUILT:
        assert (page.parent / target).exists(), f"{page}: {target}"


PUBLIC = ("adamomentum", "adamomentum.torch", "adamomentum.optax", "adamomentum.keras")
SHOWN = re.compile(r"^::: (\S+)$", re.MULTILINE)


def shown():
    """What the reference shows, but for what needs a framework that is not installed."""
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for name in SHOWN.findall(page.read_text()):
            with contextlib.suppress(ModuleNotFoundError):
                yield pkgutil.resolve_name(name)


@pytest.mark.parametrize("module", [*PUBLIC, "adamomentum_lab"])
def test_public_names_are_in_the_reference(module):
    """Whichever module they are shown under."""
    if module in ("adamomentum.optax", "adamomentum.keras"):
        pytest.importorskip(module.split(".")[1])
    public = importlib.import_module(module)
    documented = list(shown())
    for name in set(public.__all__) - {"__version__"}:
        value = getattr(public, name)
        value = getattr(value, "__wrapped__", value)  # of a package that can be called
        assert any(value is one for one in documented), name


def test_the_example_on_the_page_is_the_file():
    page = (ROOT / "docs" / "guide" / "your-own-problem.md").read_text()
    example = (ROOT / "examples" / "breast_cancer.py").read_text()
    assert BLOCK.search(page).group(1) == example
    assert len(example.splitlines()) < 40


def test_the_sentences_shown_are_those_of_the_record():
    page = (ROOT / "docs" / "guide" / "verdicts.md").read_text()
    quoted = re.findall(r"(?:^> .*\n)+", page, re.MULTILINE)
    shown = [" ".join(line[2:] for line in quote.splitlines()) for quote in quoted]
    record = ROOT / "results" / "races" / "digits_mlp-mini-fair" / "race.json"
    verdicts = Result.read(record).verdicts
    assert len(shown) == 2
    assert set(shown) <= {sentence(verdict, "test accuracy") for verdict in verdicts}


@pytest.mark.parametrize("module", [migrate, optimizer, settings], ids=lambda m: m.__name__)
def test_docstrings(module):
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
