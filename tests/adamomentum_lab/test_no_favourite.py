"""Outside of contenders/ the lab names no optimizer as its own: whom it compares is data."""

import ast
import re
from pathlib import Path

import pytest

import adamomentum_lab

LAB = Path(adamomentum_lab.__file__).parent
FILES = [
    file
    for kind in ("*.py", "*.html", "*.js", "*.css")
    for file in sorted(LAB.rglob(kind))
    if "contenders" not in file.relative_to(LAB).parts
]
# The command and the package have the optimizer's name, too: `adamomentum race`, adamomentum[lab].
COMMAND = re.compile(
    r"adamomentum (race|train|list|contenders|report|runs|bench|needs|on|makes|reads)\b"
)
PACKAGE = re.compile(r"adamomentum(_lab|_paper|\[|\.)|ADAMOMENTUM_|import adamomentum")
# Where the name stands alone, but means one of these: how often, and which.
ALONE = {
    "engine/environment.py": 1,  # the version of the package
    "report/page.py": 1,  # the same, in the report
    "report/page.html": 1,  # the same
    "race/facts.py": 1,  # the command that repeats a race
    "report/terminal.py": 2,  # the command that makes a page
    "engine/store.py": 2,  # the package
    "files.py": 1,  # the folder in the cache
    "identity.py": 1,  # the package
    "engine/ray.py": 1,  # the folder in the cache
    "cli.py": 4,  # the command
    "portable.py": 1,  # the package
    "race/schema.py": 1,  # the record of a race
    "report/drawings.py": 1,  # the salt of the ids in a figure
    "report/trackers.py": 1,  # the name of the project in a tracker
}


def strings(file):
    """Every string of a Python file, docstrings included; of others, their lines."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return text.splitlines()
    nodes = ast.walk(ast.parse(text))
    return [
        node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(LAB)))
def test_the_lab_names_no_favourite(file):
    text = file.read_text(encoding="utf-8")
    assert "AdaMomentum" not in text
    left = [PACKAGE.sub("", COMMAND.sub("", string)) for string in strings(file)]
    named = [string for string in left if "adamomentum" in string.lower()]
    assert len(named) == ALONE.get(file.relative_to(LAB).as_posix(), 0), named
