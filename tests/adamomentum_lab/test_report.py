"""The report page: its numbers, its worst inputs, and how it behaves in a browser."""

import json
import math
import random
import shutil
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from adamomentum_lab.analysis import curves, published, report
from adamomentum_lab.cli import app
from adamomentum_lab.errors import LabError
from adamomentum_lab.race import Race, hold
from adamomentum_lab.result import write
from adamomentum_lab.runs.store import Run, Store
from adamomentum_lab.workloads import find
from tests.adamomentum_lab.problems import HEAD

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = (
    "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
)


class MadeUp:
    """An engine whose runs have the scores that a function of their specification says."""

    def __init__(self, accuracy, epochs=4):
        self.accuracy, self.epochs = accuracy, epochs

    def run(self, jobs, on_epoch=None, on_run=lambda run: None):
        runs = [self.one(job.spec) for job in jobs]
        for run in runs:
            on_run(run)
        return runs

    def one(self, spec):
        last = self.accuracy(spec)
        status = "done"
        if isinstance(last, str):
            last, status = 50.0, last
        epochs = [
            {
                "epoch": e,
                "train": {"loss": 2.0 / e},
                "validation": {"loss": 2.0 / e, "accuracy": last * e / self.epochs},
                "test": {"loss": 2.0 / e, "accuracy": last * e / self.epochs - 1},
            }
            for e in range(1, (1 if status == "diverged" else self.epochs) + 1)
        ]
        machine = {"ms_per_update": 1.5, "seconds": 4.0, "torch": "2.13", "updates": 28}
        error = "RuntimeError: it was not to be" if status == "failed" else None
        return Run(spec, status, epochs, [1.0] * len(epochs), machine, error)


def noisy(spec):
    """An accuracy that depends on the optimizer, the lr and the seed."""
    chance = random.Random(f"{spec.seed} {dict(spec.settings)['lr']}").gauss(0, 1)
    return {"adam": 85.0, "adamomentum": 88.0}.get(spec.optimizer, 80.0) + chance


def raced(folder, origin, accuracy=noisy, names=("adam", "adamomentum", "sgdm"), **options):
    race = Race(
        origin.name,
        origin.code,
        tuple(names),
        options.pop("trials", 3),
        options.pop("seeds", 4),
        options.pop("scale", "mini"),
        options.pop("protocol", "fair"),
    )
    engine = MadeUp(accuracy, **options)
    result = hold(race, origin, Store(folder), engine, lambda *_: None)
    write(result, folder / "races" / race.id)
    return result


def problem(folder, name="plain", **lines):
    """A user's file, with these class attributes."""
    text = HEAD + "".join(f"\n    {key} = {value!r}" for key, value in lines.items()) + "\n"
    file = folder / f"{name}.py"
    file.write_text(text)
    return find(str(file))


def made(folder):
    file = folder / "page.html"
    file.write_text(report.page(report.load(folder), folder))
    return file


def data_of(file):
    text = file.read_text().split('<script type="application/json" id="data">')[1]
    return json.loads(text.split("</script>")[0])


def test_a_band_by_hand():
    found = curves.band([[1.0, 2.0, 9.0], [3.0, None]])
    # t(0.975, 1) = 12.706205; the standard deviation of 1 and 3 is sqrt(2).
    assert found["mean"] == [2.0, None]
    assert found["high"][0] == pytest.approx(2 + 12.706205)
    assert found["low"][0] == pytest.approx(2 - 12.706205)
    assert curves.band([]) == {"mean": [], "low": [], "high": []}


def test_test_is_carried_to_epochs_that_did_not_read_it():
    records = [
        {"epoch": 1},
        {"epoch": 2, "test": {"a": 5.0}},
        {"epoch": 3},
        {"epoch": 4, "test": {}},
    ]
    run = {"epochs": records}
    assert curves.values(run, "test", "a") == [None, 5.0, None, None]
    assert curves.values(run, "test", "a", carried=True) == [None, 5.0, 5.0, None]


def test_seconds_are_added_up():
    runs = [
        {"machine": {"epoch_seconds": [1.0, 2.0]}},
        {"machine": {"epoch_seconds": [3.0, 2.0, 9]}},
    ]
    assert curves.clock(runs) == [2.0, 4.0]
    assert curves.clock([{"machine": {}}]) == []


def test_the_paper_is_quoted():
    assert published.PAPER["cifar10_resnet34"].values["adamomentum"] == (96.33, 0.07)
    assert published.PAPER["ptb_lstm3"].values["sgdm"] == (63.52, 0.16)
    assert published.PAPER["cifar10_biggan"].values["adabelief"] == (7.22, 0.09)
    for name, results in published.PAPER.items():
        metric = find(name).load()("full", "paper").metric
        assert results.metric == metric, name


def test_what_the_page_says(tmp_path):
    result = raced(tmp_path, problem(tmp_path))
    text = made(tmp_path).read_text()
    row = next(row for row in result.rows if row.optimizer == "adamomentum")
    assert f"{row.score.mean:.1f}"[:4] in text
    assert "Two noisy half planes" in text
    assert "What holds here" in text or "what holds here need not hold" in text
    assert "adamomentum race" in text
    sentences = [row.comparison.sentence for row in result.rows if row.comparison]
    assert len(sentences) == 2
    for sentence in sentences:
        assert sentence.replace("'", "&#39;") in text


def test_numbers_agree_with_the_sentences(tmp_path):
    result = raced(tmp_path, problem(tmp_path))
    file = next(tmp_path.glob("races/*/race.json"))
    race = json.loads(file.read_text())
    row = next(row for row in race["ranking"] if row["comparison"])
    row["comparison"]["p_holm"] = 0.0504  # which is above the level, and must not look like it
    file.write_text(json.dumps(race))
    assert '<td class="number">0.0504</td>' in "".join(made(tmp_path).read_text().split("\n"))
    assert report._probability(0.0001) == "< 0.001"
    assert report._probability(1.0) == "1"
    assert report._interval({"mean": 97.2222, "half": None}) == "97.222"
    assert report._interval({"mean": 97.2222, "half": 0.0}) == "97.222 ± 0"
    assert report._interval({"mean": 0.5234, "half": 0.32}, sign=True) == "+0.52 ± 0.32"
    assert result.rows


def test_what_was_not_tuned_is_not_called_tuned(tmp_path):
    raced(tmp_path, problem(tmp_path), trials=0)
    text = made(tmp_path).read_text()
    assert "Nothing was tuned; test was read at the epoch that validation chose." in text
    assert "was tuned with the same number of runs" not in text
    assert "luck of tuning" not in text
    assert "was tuned with the same number of runs" in published.protocol("fair", "", 3)[0]


def test_trials_keep_their_test_scores_to_themselves(tmp_path):
    raced(tmp_path, problem(tmp_path))
    runs = data_of(made(tmp_path))["races"][0]["runs"]
    trials = [run for run in runs if run["stage"] == "tuning"]
    assert len(trials) == 9
    assert all(run["test"] is None for run in trials)
    assert not [c for run in trials for c in run["columns"] if c[0] == "test"]
    assert all(run["test"] is not None for run in runs if run["stage"] == "final")


def test_a_race_within_another_is_left_out(tmp_path):
    origin = problem(tmp_path)
    raced(tmp_path, origin, seeds=2)
    raced(tmp_path, origin, seeds=4)
    raced(tmp_path, origin, seeds=3, names=("sgdm", "adabelief"))
    assert [race["spec"]["seeds"] for race in report.load(tmp_path)] in ([3, 4], [4, 3])


def test_nothing_to_report(tmp_path):
    with pytest.raises(LabError, match="there is no finished race in"):
        report.load(tmp_path)
    result = CliRunner().invoke(app, ["report", "--runs", str(tmp_path / "none")])
    assert isinstance(result.exception, LabError)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("{", "cannot be read"), ("[]", "cannot be"), ("{}", "another version")],
)
def test_a_damaged_race(tmp_path, content, sentence):
    file = tmp_path / "races" / "a" / "race.json"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with pytest.raises(LabError, match=sentence):
        report.load(tmp_path)


def _parts(value, path=()):
    """Where all the parts of a JSON value are."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from _parts(item, (*path, key))


@pytest.mark.parametrize("harm", ["gone", "a word", "a number", "null"])
def test_a_race_that_lacks_something_is_named_or_shown(tmp_path, harm):
    raced(tmp_path / "one", problem(tmp_path), names=("adam", "adamomentum"), seeds=2)
    file = next(tmp_path.glob("one/races/*/race.json"))
    whole = file.read_text()
    sample = random.Random(harm).sample(sorted(_parts(json.loads(whole)), key=str), 25)
    for path in [("spec",), ("ranking",), ("runs", 0), ("ranking", 0, "comparison"), *sample]:
        race = part = json.loads(whole)
        for key in path[:-1]:
            part = part[key]
        if harm == "gone":
            del part[path[-1]]
        else:
            part[path[-1]] = {"a word": "word", "a number": 7, "null": None}[harm]
        file.write_text(json.dumps(race))
        told = str(file)
        try:
            report.page(report.load(tmp_path / "one"), tmp_path / "one")
        except LabError as error:
            told = str(error)
        assert str(file) in told, path


def test_the_race_at_fault_is_named_among_others(tmp_path):
    for name in ("one", "two"):
        raced(tmp_path, problem(tmp_path, name))
    file = sorted(tmp_path.glob("races/*/race.json"))[1]
    race = json.loads(file.read_text())
    del race["headline"]
    file.write_text(json.dumps(race))
    with pytest.raises(LabError, match=f"{file.parent.name}/race.json was written by another"):
        made(tmp_path)


def test_a_page_needs_a_file(tmp_path):
    raced(tmp_path, problem(tmp_path))
    for out in (tmp_path, "."):
        result = CliRunner().invoke(app, ["report", "--runs", str(tmp_path), "--out", str(out)])
        assert isinstance(result.exception, LabError)
        assert "is a folder; --out names a file, such as" in str(result.exception)


def test_runs_outside_of_races_are_counted(tmp_path):
    origin = problem(tmp_path)
    raced(tmp_path, origin)
    other = MadeUp(noisy).one
    result = raced(tmp_path / "other", origin, names=("yogi",), seeds=1, trials=0)
    Store(tmp_path).finish(other(result.runs[0][1].spec))
    assert "Other runs in this folder" in made(tmp_path).read_text()
    assert [one["runs"] for one in report._others(tmp_path, set())] == [1]


def test_profiles_over_workloads(tmp_path):
    for name, best in (("one", "adam"), ("two", "sgdm"), ("three", "sgdm")):

        def accuracy(spec, best=best):
            return {best: 95.0, "yogi": 60.0}.get(spec.optimizer, 85.0)

        raced(tmp_path, problem(tmp_path, name), accuracy, names=("adam", "sgdm", "yogi"))
    profile = data_of(made(tmp_path))["profile"]
    assert sorted(profile["workloads"]) == ["one", "three", "two"]
    # 80 per cent is reached by all but yogi in the last epoch of four: 95 * 3/4 < 80.
    assert profile["scores"] == {"adam": 1.0, "sgdm": 1.0, "yogi": 0.0}


def test_of_several_races_of_a_workload_the_best_tuned_counts(tmp_path):
    origins = [problem(tmp_path, name) for name in ("one", "two")]
    for origin in origins:
        raced(tmp_path, origin, lambda spec: 95.0)
    assert not data_of(made(tmp_path))["profile"]["several"]
    for seeds in range(5, 9):  # nobody reaches the target without tuning
        raced(tmp_path, origins[0], lambda spec: 60.0, trials=0, seeds=seeds)
    profile = data_of(made(tmp_path))["profile"]
    assert profile["several"]
    assert profile["scores"]["adam"] == 1.0
    text = (tmp_path / "page.html").read_text()
    assert "Of several races of a workload the one with the most trials" in text


def test_a_single_workload_has_no_profile(tmp_path):
    raced(tmp_path, problem(tmp_path))
    assert data_of(made(tmp_path))["profile"] is None


def test_sheets_are_embedded_and_damaged_ones_left_out(tmp_path):
    result = raced(tmp_path, problem(tmp_path))
    runs = {run.spec.optimizer: run for stage, run in result.runs if stage == "final"}
    first = [run for stage, run in result.runs if stage == "final" and run.spec.seed == 1]
    for run in first:
        folder = tmp_path / run.spec.id
        folder.mkdir()
        for name in ("sheet-0000", "sheet-0002", "sheet-0005", "interpolation"):
            Image.new("RGB", (8, 8), "red").save(folder / f"{name}.png")
    (tmp_path / first[0].spec.id / "sheet-0002.png").write_bytes(b"no picture")
    text = made(tmp_path).read_text()
    assert text.count("data:image/webp;base64,") == 4 * len(runs) - 1
    assert "before training" in text
    assert "after epoch 5" in text


def worst(folder):
    """Everything that can go wrong at once, and a name that would like to be markup."""
    origin = problem(folder, "<b>bold & co", metric=EVIL, target=None)
    lines = origin.file.read_text().replace("'''Two noisy", f"'''{EVIL} Two noisy")
    lines += """
    def scores(self, model, batch):
        return super().scores(model, batch)
"""
    origin.file.write_text(lines)
    origin = find(str(origin.file))

    def accuracy(spec):
        return {"adam": "diverged", "sgdm": "failed"}.get(spec.optimizer, math.nan)

    class Engine(MadeUp):
        def one(self, spec):
            run = super().one(spec)
            for record in run.epochs:
                for scores in (record["validation"], record["test"]):
                    scores[EVIL] = scores.pop("accuracy")
            if run.error:
                run.error = EVIL
            return run

    names = ("adam", "sgdm", "yogi", "adamomentum")
    race = Race(origin.name, origin.code, names, 2, 1, "mini", "fair")
    result = hold(race, origin, Store(folder), Engine(accuracy), lambda *_: None)
    write(result, folder / "races" / race.id)


def test_the_worst_page_is_escaped(tmp_path):
    worst(tmp_path)
    text = made(tmp_path).read_text()
    assert EVIL not in text
    assert "<b>bold" not in text
    assert text.count("</script>") == 3


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: the page is not tried in a browser")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open a page; whatever it complains of or fetches fails the test."""
    pages, faults = [], []

    def open_(file: Path, width=1440, **options):
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        pages.append(page)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:", "blob:")) or faults.append(request.url)
            ),
        )
        page.goto(f"file://{file}")
        return page

    yield open_
    for page in pages:
        page.close()
    assert faults == []


def drawn(page, selector):
    """A plot, once it is drawn."""
    place = page.locator(selector).first
    place.scroll_into_view_if_needed()
    place.locator(".main-svg").first.wait_for()
    return place


@pytest.mark.slow
class TestInABrowser:
    @pytest.mark.parametrize("width", [390, 1440])
    @pytest.mark.parametrize("colours", ["light", "dark"])
    def test_everything_is_drawn_and_nothing_overflows(self, visit, tmp_path, width, colours):
        for name in ("one", "two"):
            raced(tmp_path, problem(tmp_path, name))
        page = visit(made(tmp_path), width, color_scheme=colours)
        for selector in ("#profile", ".curves", ".lr", ".best"):
            drawn(page, selector)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (colours == "light")

    def test_curves_are_switched(self, visit, tmp_path):
        raced(tmp_path, problem(tmp_path))
        page = visit(made(tmp_path))
        place = drawn(page, ".curves")
        title = "() => document.querySelector('.curves').layout.yaxis.title.text"
        assert page.evaluate(title) == "validation accuracy"
        for label, wanted in (("test accuracy",) * 2, ("train loss",) * 2):
            page.locator(".curve").select_option(label=label)
            assert page.evaluate(title) == wanted
        y = page.evaluate("() => document.querySelector('.curves').data.at(-1).y")
        assert y == pytest.approx([2.0, 1.0, 2 / 3, 0.5], rel=1e-5)
        page.locator(".log-y").check()
        assert page.evaluate("() => document.querySelector('.curves').layout.yaxis.type") == "log"
        page.locator(".closer").check()
        page.locator(".each").check()
        page.locator(".over").select_option("seconds")
        x = page.evaluate("() => document.querySelector('.curves').data.at(-1).x")
        assert x == [1, 2, 3, 4]
        lines = page.evaluate("() => document.querySelector('.curves').data.length")
        assert lines == 3 * (2 + 4 + 1)  # of each: a band, four seeds, the mean
        assert place.is_visible()

    def test_every_run_is_a_click_from_its_number(self, visit, tmp_path):
        result = raced(tmp_path, problem(tmp_path))
        page = visit(made(tmp_path))
        page.locator("button.open[data-optimizer=adamomentum]").focus()
        page.keyboard.press("Enter")
        dialog = page.locator("dialog[open]")
        mine = [run for _, run in result.runs if run.spec.optimizer == "adamomentum"]
        assert dialog.locator("button.run").count() == len(mine)
        dialog.locator("button.run").first.click()
        final = next(r for stage, r in result.runs if stage == "final" and r in mine)
        assert final.spec.id in dialog.inner_text()
        assert dialog.locator("tbody").last.locator("tr").count() == 4
        dialog.get_by_text("all its runs").click()
        page.keyboard.press("Escape")
        assert page.locator("dialog[open]").count() == 0
        focused = page.evaluate("document.activeElement.dataset.optimizer")
        assert focused == "adamomentum"  # where the reader was

    def test_nothing_offers_to_send_the_data_away(self, visit, tmp_path):
        raced(tmp_path, problem(tmp_path))
        page = visit(made(tmp_path))
        drawn(page, ".curves")
        offered = page.locator(".curves .modebar-btn").evaluate_all(
            "all => all.map(one => one.dataset.title ?? one.ariaLabel)"
        )
        assert "Pan" in offered
        assert not [name for name in offered if "hare" in name or "loud" in name]
        assert page.evaluate("document.querySelector('.curves')._context.plotlyServerURL") == ""

    def test_what_was_not_in_view_is_printed(self, visit, tmp_path):
        raced(tmp_path, problem(tmp_path))
        page = visit(made(tmp_path))
        assert page.locator(".best .main-svg").count() == 0
        page.pdf()
        assert page.locator(".best .main-svg").count() > 0
        assert page.locator(".lr .main-svg").count() > 0

    def test_the_table_of_runs_is_filtered(self, visit, tmp_path):
        raced(tmp_path, problem(tmp_path), seeds=10)
        page = visit(made(tmp_path))
        rows = page.locator("table.runs tbody tr")
        assert rows.count() == 20
        page.locator(".more").click()
        assert rows.count() == 39
        page.locator(".by-optimizer").select_option("adam")
        page.locator(".by-stage").select_option("final")
        assert rows.count() == 10
        assert page.locator(".count").inner_text() == "10 of 10 runs"

    def test_names_are_announced(self, visit, tmp_path):
        raced(tmp_path, problem(tmp_path))
        page = visit(made(tmp_path))
        unnamed = page.evaluate(
            "[...document.querySelectorAll('select, input, button')].filter(e => !(e.labels?.length"
            " || e.innerText.trim() || e.ariaLabel)).length"
        )
        assert unnamed == 0
        assert page.evaluate("document.documentElement.lang") == "en"
        for table in page.locator("table").all():
            assert table.locator("th[scope]").count() > 0 or not table.is_visible()
        for image in page.locator("[role=img]").all():
            assert image.get_attribute("aria-label")

    def test_the_worst_page_is_right_and_readable(self, visit, tmp_path):
        worst(tmp_path)
        page = visit(made(tmp_path), 390)
        assert "bold & co" in page.title()
        drawn(page, ".curves")
        text = page.locator("main").inner_text()
        assert "1 of 1 diverged" in text
        assert "1 of 1 failed" in text
        assert "1 of 1 without a score" in text
        assert "No trial ended with a score." in text
        assert "NaN" not in text
        page.locator("button.open").first.click()
        page.locator("dialog button.run").first.click()
        assert "owned" not in page.title()
        assert page.locator("img[src=x]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

    def test_injected_scripts_would_not_run(self, visit, tmp_path, browser):
        raced(tmp_path, problem(tmp_path))
        file = made(tmp_path)
        file.write_text(
            file.read_text().replace("<main", "<script>document.title='owned'</script><main")
        )
        page = browser.new_page()
        page.goto(f"file://{file}")
        assert page.title() != "owned"
        page.close()
