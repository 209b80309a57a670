"""The results page, and the committed records."""

import json
import re
import subprocess
import sys

import pytest

from adamomentum_paper.claims import page as claims
from adamomentum_paper.claims import statements as paper
from adamomentum_paper.claims.records import Records, state_bytes, theory
from adamomentum_paper.published import PAPER
from tests.tools.made import HIGHER, LOWER, NEAR, OURS, ROOT, judged, race_of


def test_which_race_a_verdict_comes_from():
    def made(name, workload="ptb_lstm1", **spec):
        return race_of({"adamomentum": OURS}, workload, name=name, spec=spec)

    races = [
        made("smoke", scale="smoke"),
        made("as-run", protocol="as-run"),
        made("untuned", trials=0),
        made("other", workload="ptb_lstm2"),
    ]
    assert claims.bearing(races, "ptb_lstm1") is None
    races.append(made("mini"))
    assert claims.bearing(races, "ptb_lstm1").name == "mini"
    races.append(race_of({"adamomentum": OURS, "adam": OURS}, "ptb_lstm1", name="more"))
    assert claims.bearing(races, "ptb_lstm1").name == "more"
    races.append(made("full", scale="full"))
    assert claims.bearing(races, "ptb_lstm1").name == "full"


def test_the_claims_cover_the_paper():
    judged = {name for claim in paper.CLAIMS for name in claim.workloads}
    assert judged == set(PAPER) == set(paper.TUNED)


def cells(page):
    """Of every row of every table."""
    return [
        re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| ")
    ]


def test_without_records_nothing_is_tested():
    page = claims.page(Records())
    assert "They include no race yet." in page
    assert page.startswith("# Results\n\n## Findings\n\n1. **Memory and speed.** AdaMomentum")
    verdicts = {row[1].strip() for row in cells(page) if len(row) == 3}
    assert verdicts == {"verdict", "---", "**not tested**", "**supported**"}  # the memory row
    assert page.count("**supported** (1)") == 1
    assert claims.REPORT not in page


def test_a_page_of_made_up_records():
    full = {"adamomentum": OURS, **dict.fromkeys(paper.SEVEN, LOWER)}
    four = {"adamomentum": OURS, "adamw": NEAR, "adam": HIGHER, "adam-translated": HIGHER}
    races = [
        race_of(full),
        race_of(full | {"adabelief": HIGHER}, spec={"protocol": "as-run", "trials": 0}),
        race_of(four, "ptb_lstm1", larger=False, metric="perplexity"),
        race_of(full, "imagenet_resnet18"),
        race_of(full, "cifar10_dcgan", metric="fd-cnn", spec={"tune": ["lr", "final_lr"]}),
    ]
    finding = {
        "statement": "In area A|B",
        "word": "does not hold",
        "found": "Of |x| nothing *held*.",
    }
    judged(races[0], adamomentum={"edge": "largest"}, sgdm={"edge": "largest"})
    theory = {"curvature": {"size": "default", "findings": [finding]}}
    page = claims.page(Records(races, theory))
    assert {len(row) for row in cells(page)} == {2, 3}
    text = " ".join(page.split())
    assert "same claim: `cifar10_resnet34` | **supported**" in text
    # On other data than the paper's, nothing is said about its claim.
    assert (
        "slightly better than SGDM” (section 5.2.1, ImageNet): `imagenet_resnet18` | **not" in text
    )
    assert "### imagenet_resnet18 Made up." in text
    assert "5 epochs, 4 trials, 5 seeds](" in text
    assert "4 trials of lr and final lr, 5 seeds; fd-cnn instead of the paper's fid](" in text
    assert "| **contradicted** | Does not hold: Of \\|x\\| nothing \\*held\\*." in text
    assert "### cifar10_resnet34, mini" in text
    assert "**not tested** | eadam was not raced together with adamomentum." in text
    assert "| 1 | **adamomentum** 90.04 ± 0.34 (n = 5) | adabelief 95.06" in text
    assert "Not lr alone: AdaMomentum is better than Adam with a tuned lr, on both lr grids" in text
    assert "(adamw) reaches 90.06 ± 0.31 (n = 5): " in text
    assert f"({claims.REPORT}#race-ptb_lstm1-mini-fair)" in text
    assert "; at the largest lr tried: adamomentum and sgdm. ```bash" in text
    assert "Nothing was run at the paper's scale" in text


def test_the_committed_page_is_what_the_records_make(tmp_path):
    assert claims.main(["--out", str(tmp_path / "results.md")]) == 0
    made = (tmp_path / "results.md").read_text()
    assert made == claims.PAGE.read_text(), "run `make results`"


def test_the_findings_follow_from_the_committed_records():
    records = Records.of()
    lines = claims.findings(records.races, records.theory, records.speed, state_bytes())
    assert len(lines) == 10
    fair = {race.race.workload: race for race in records.races if race.race.protocol == "fair"}
    assert f"come from {len(fair)} tuned races at `mini` scale" in lines[0]
    first = [race for race in fair.values() if race.row("adamomentum").rank == 1]
    assert f"best mean test score in {len(first)} of {len(fair)} races" in lines[1]
    for line, other in zip(lines[2:4], ("adam", "adamw"), strict=True):
        raced = [race for race in fair.values() if race.row(other)]
        assert line.startswith(f"**Compared with {other}** ({len(raced)} races)")
        # Their grids were coarse, and the settings beside the tuned ones were not run.
        assert line.endswith("AdaMomentum is undecided on all.")
    assert "**Compared with adabelief**" in lines[4]
    assert "**Compared with sgdm**" in lines[4]
    assert lines[5].startswith("**Compared with adam-translated**")
    assert "(protocols: `as-run` and `paper`)" in lines[6]
    assert "not tuned): Yes: Adam at the translated lr" in lines[6]
    assert "4.44 with batches of 8" in lines[7]
    count = sum(len(record["findings"]) for record in records.theory.values())
    assert f"Of {count} tested statements" in lines[8]
    assert "it stays longer in 0 of 36 cases, shorter in 35." in lines[8]
    assert "AdaMomentum stores 8 bytes per float32 parameter, Adam 8." in lines[9]


def test_the_committed_records_have_what_is_asked_of_them():
    records = Records.of().theory
    for one in paper.THEOREMS:
        assert theory(records[one.record], one.statement).verdict != "not tested", one


def test_committed_records_tell_of_no_machine():
    for file in (ROOT / "results").rglob("*.json"):
        text = file.read_text()
        assert not re.search(r"[\"' ]~?/(?:[\w.-]+/)+|platform|\"(?:node|folder|host)\"", text), (
            file
        )
        assert len(text) < 700_000, f"{file}: a record is small"


@pytest.mark.slow
def test_the_site_has_the_races_and_the_changes(tmp_path):
    for package in ("material", "mkdocstrings_handlers.python"):
        pytest.importorskip(package, reason="of the extra docs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    races = (tmp_path / "results" / "races.html").read_text()
    links = re.findall(r'href="races.html#([^"]+)"', (tmp_path / "results/index.html").read_text())
    assert links
    assert {f'id="{anchor}"' in races for anchor in links} == {True}
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert newest in (tmp_path / "changelog" / "index.html").read_text()
    found = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    assert {"results/", "changelog/"} <= {page["location"] for page in found}
