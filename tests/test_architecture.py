"""What may import what, and what an import costs."""

import ast
import operator
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from adamomentum._install import install_command

SRC = Path(__file__).parents[1] / "src"
LIBRARY = sorted((SRC / "adamomentum").rglob("*.py"))
FRAMEWORKS = {"torch", "jax", "optax", "keras", "tensorflow", "numpy"}
# The one framework a part of the library may import; everything else imports none.
HOST = {"torch": {"torch"}, "optax.py": {"jax", "numpy", "optax"}, "keras.py": {"keras"}}


def imported(path):
    """Top-level names of the packages a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def part_of(path):
    return path.relative_to(SRC / "adamomentum").parts[0]


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(SRC)))
def test_library_imports_only_its_host(path):
    names = set(imported(path))
    assert "adamomentum_lab" not in names
    assert names & FRAMEWORKS <= HOST.get(part_of(path), set())


@pytest.mark.parametrize("name", ["loop", "supervised", "adversarial"])
def test_the_loop_names_no_workload(name):
    text = (SRC / "adamomentum_lab" / "training" / f"{name}.py").read_text()
    assert not re.search("digits|cifar|ptb|iwslt|multi30k", text)


def test_text_is_read_and_written_as_utf_8():
    for file in [*SRC.rglob("*.py"), *(SRC.parent / "tools").glob("*.py")]:
        # A Distribution's file, such as RECORD, is always read as UTF-8.
        text = re.sub(r"\.read_text\('[A-Z]+'\)", "", file.read_text(encoding="utf-8"))
        for call in re.findall(r"\b(?:read|write)_text\(.*", text):
            assert 'encoding="utf-8"' in call, f"{file}: {call}"


LONG = {"_cpu.c": "one unit of C: the functions share static tables of torch and of the last plan"}
"""Files of more than 400 lines, and why."""


def test_files_are_short():
    lengths = {
        file.relative_to(SRC): len(file.read_text(encoding="utf-8").splitlines())
        for file in SRC.rglob("*.*")
        if file.suffix in (".py", ".c", ".h") and file.name not in LONG
    }
    assert {str(file): n for file, n in lengths.items() if n > 400} == {}, (
        "split it, or say why not"
    )


def test_rule_imports_nothing_but_the_standard_library():
    assert set(imported(SRC / "adamomentum" / "rule.py")) == {"math", "typing"}


def python(code, *flags):
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_importing_the_package_loads_no_framework():
    status, out, err = python(
        "import sys, adamomentum, adamomentum.rule, adamomentum_lab; "
        f"print(sorted({FRAMEWORKS!r} & set(sys.modules)), adamomentum.__version__)"
    )
    assert status == 0, err
    assert out.startswith("[] 0.")


def test_asking_for_the_optimizer_loads_torch_alone():
    status, out, err = python(
        "import sys; from adamomentum import AdaMomentum; "
        "print(sorted({'jax', 'optax', 'keras', 'tensorflow'} & set(sys.modules)))"
    )
    assert status == 0, err
    assert out.strip() == "[]"


@pytest.mark.parametrize(
    "statement", ["from adamomentum import AdaMomentum", "import adamomentum.torch"]
)
def test_a_missing_framework_names_the_extra(statement):
    status, _, err = python(f"import sys; sys.modules['torch'] = None; {statement}")
    assert status == 1
    last = err.strip().splitlines()[-1]
    assert last == (
        "ModuleNotFoundError: adamomentum.torch needs PyTorch; "
        f"install it with: {install_command('torch')}"
    )


@pytest.mark.parametrize(
    ("module", "missing", "words"),
    [
        ("optax", "jax", "needs JAX and Optax; install them with"),
        ("optax", "optax", "needs JAX and Optax; install them with"),
        ("keras", "keras", "needs Keras; install it with"),
    ],
)
def test_a_missing_host_names_the_extra(module, missing, words):
    status, _, err = python(
        f"import sys; sys.modules[{missing!r}] = None; import adamomentum.{module}"
    )
    assert status == 1
    assert err.strip().splitlines()[-1] == (
        f"ModuleNotFoundError: adamomentum.{module} {words}: {install_command(module)}"
    )


@pytest.mark.parametrize(
    ("module", "host", "others"),
    [
        ("optax", "optax", {"torch", "keras", "tensorflow"}),
        ("keras", "keras", {"optax", "tensorflow"}),
        ("torch", "torch", {"jax", "optax", "keras", "tensorflow"}),
    ],
)
def test_an_integration_loads_its_host_alone(module, host, others):
    """Apart from the modules of its host, an integration imports only our own."""
    pytest.importorskip(host)
    status, out, err = python(
        f"import sys, {host}; before = set(sys.modules); import adamomentum.{module}; "
        f"print(sorted({others!r} & set(sys.modules)), "
        f"[name for name in set(sys.modules) - before if not name.startswith('adamomentum')])"
    )
    assert status == 0, err
    assert out.strip() == "[] []"


def required(package, extra=""):
    """Names of what a package, as it is installed here, requires, and of what those do."""
    found, todo = set(), [(package, extra)]
    while todo:
        name, extra = todo.pop()
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # of another platform, say
            continue
        for requirement in map(Requirement, lines):
            marker, key = requirement.marker, requirement.name.lower().replace("_", "-")
            if (marker is None or marker.evaluate({"extra": extra})) and key not in found:
                found.add(key)
                todo.append((key, ""))
    return found


@pytest.mark.parametrize(
    ("extra", "hosts"),
    [("torch", {"torch"}), ("optax", {"jax", "optax"}), ("keras", {"keras"}), ("", set())],
)
def test_an_extra_brings_its_framework_alone(extra, hosts):
    brought = required("adamomentum", extra)
    assert brought & (FRAMEWORKS - {"numpy"}) == hosts


def test_the_command_without_the_lab_names_the_extra():
    status, _, err = python(
        "import sys; sys.modules['typer'] = None; from adamomentum_lab.cli import main; main()"
    )
    assert status == 1
    command = install_command("lab")
    assert err.strip() == f"adamomentum needs the lab; install it with: {command}"


def test_unknown_names_are_attribute_errors():
    import adamomentum

    with pytest.raises(AttributeError, match="no attribute 'AdaMomentun'"):
        operator.attrgetter("AdaMomentun")(adamomentum)
    assert "AdaMomentum" in dir(adamomentum)
