"""Exports of a race: CSV, LaTeX, figures and the schema; two folders side by side."""

import csv
import io
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from typer.testing import CliRunner

from adamomentum_lab.cli import app
from adamomentum_lab.race.record import Record
from adamomentum_lab.race.result import Result
from adamomentum_lab.race.schema import record_schema
from adamomentum_lab.report import exports
from adamomentum_lab.report.compare import compare
from tests.adamomentum_lab.races import budgets, problem, raced

FIGURES = ("forest", "forest-of-savings", "curves", "tuning", "lengths")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    return folder, budgets(folder)


def run(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_everything_is_written(store, tmp_path):
    folder, result = store
    done = run("--runs", folder, "--out", tmp_path / "page.html", "--export", tmp_path / "out")
    assert done.exit_code == 0, done.output
    (place,) = (one for one in (tmp_path / "out").iterdir() if one.is_dir())
    names = {file.name for file in place.iterdir()}
    drawn = {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "pdf")}
    assert names == {"runs.csv", "comparisons.csv", "table.tex", *drawn}
    for name in FIGURES:
        assert ET.parse(place / f"{name}.svg").getroot().tag.endswith("svg")
        assert (place / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    runs = read((place / "runs.csv").read_text())
    assert len(runs) == len(result.runs) + len(result.record.budgets)
    assert {one["length"] for one in runs} == {"2", "4", "8"}


def test_comparisons_are_those_of_the_verdicts(store):
    result = store[1]
    rows = read(exports.comparisons_csv(result))
    assert [(row["optimizer"], row["verdict"]) for row in rows] == [
        (verdict.a, verdict.kind) for verdict in result.verdicts
    ]
    yogi = next(row for row in rows if row["optimizer"] == "yogi")
    assert float(yogi["speedup"]) == result.speedups["yogi"].factor


def test_the_table_is_latex(store):
    text = exports.latex_table(store[1])
    assert [line for line in text.splitlines() if line.startswith(r"\begin")] == [
        r"\begin{table}", r"\begin{tabular}{llrrr}"
    ]  # fmt: skip
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == 3
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {4}
    assert all(line.endswith(r"\\") for line in body)
    for mark in exports.MARKS.values():
        assert mark in text.split(r"\label")[0]
    assert text.count("{") == text.count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    assert "±" not in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here")
def test_the_table_compiles(store, tmp_path):
    table = exports.latex_table(store[1])
    source = r"\documentclass{article}\usepackage{booktabs}\begin{document}%s\end{document}"
    (tmp_path / "a.tex").write_text(source.replace("%s", table.replace("% Needs", "%% Needs")))
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "a.tex"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0


def test_names_are_escaped():
    assert exports.escape("a_b & 5% {x} \\y") == r"a\_b \& 5\% \{x\} \textbackslash{}y"


def fits(value, schema, definitions):
    """A check by hand of the parts of JSON schema that are used."""
    if "$ref" in schema:
        return fits(value, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return any(fits(value, one, definitions) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if kind == "array":
        return isinstance(value, list) and all(fits(v, schema["items"], definitions) for v in value)
    if kind == "object":
        parts, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        return (
            isinstance(value, dict)
            and all(key in value for key in schema.get("required", ()))
            and all(fits(v, parts.get(k, more), definitions) for k, v in value.items())
        )
    kinds = {"string": str, "boolean": bool, "null": type(None), "integer": int}
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind is None or isinstance(value, kinds[kind])


def test_the_schema_fits_records_and_refuses_others(store):
    schema = record_schema()
    data = json.loads(store[1].record.dumps())
    assert fits(data, schema, schema["$defs"])
    for file in ("digits_mlp-mini-fair", "ptb_lstm1-mini-fair"):
        kept = Record.read(f"results/races/{file}/race.json")
        assert fits(json.loads(kept.dumps()), schema, schema["$defs"])
    for key in ("spec", "runs", "workload"):
        assert not fits({k: v for k, v in data.items() if k != key}, schema, schema["$defs"])
    data["runs"][0]["status"] = "won"
    assert not fits(data, schema, schema["$defs"])


def test_two_folders_side_by_side(tmp_path):
    a, b = (tmp_path / name for name in "ab")
    origin = problem(tmp_path)
    first = raced(a, origin, seeds=2)
    second = raced(b, origin, lambda spec: 90.0 + spec.seed, ("adam", "yogi"), seeds=3)
    done = run("--compare", a, b, "--out", tmp_path / "both.html")
    assert done.exit_code == 0, done.output
    assert "yogi" in (tmp_path / "both.html").read_text()
    found = compare(first, second)
    rows = {row[0]: row for row in found.rows}
    assert set(rows) == {"adam", "adamomentum", "sgdm", "yogi"}
    change = second.row("adam").score.mean - first.row("adam").score.mean
    assert float(rows["adam"][3]) == pytest.approx(change, abs=0.1)
    assert rows["yogi"][1] == "-"
    assert "Not the same: seeds (2 and 3)." in found.notes


def test_folders_that_share_nothing(tmp_path):
    for name in "ab":
        raced(tmp_path / name, problem(tmp_path, f"problem_{name}"))
    done = run("--compare", tmp_path / "a", tmp_path / "b")
    assert done.exit_code == 1
    assert "share no race" in str(done.exception or done.output)


def test_options_that_exclude_each_other(tmp_path):
    assert run("--compare", tmp_path, tmp_path, "--export", tmp_path).exit_code == 2
    (tmp_path / "file").write_text("")
    raced(tmp_path / "runs", problem(tmp_path))
    done = run("--runs", tmp_path / "runs", "--export", tmp_path / "file")
    assert done.exit_code == 1
    assert isinstance(Result.read(next((tmp_path / "runs" / "races").iterdir())), Result)
