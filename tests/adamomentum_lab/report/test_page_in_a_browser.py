"""How the report page behaves in a browser, if there is one."""

import shutil
from pathlib import Path

import pytest

from tests.adamomentum_lab.races import budgets, made, problem, raced, worst

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


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
        for selector in ("#profile", ".curves", ".lr"):
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
        mine = [run for run in result.runs if run.spec.optimizer == "adamomentum"]
        assert dialog.locator("button.run").count() == len(mine)
        dialog.locator("button.run").first.click()
        final = result.finals["adamomentum"][0]
        assert final.id in dialog.inner_text()
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
        assert page.locator(".curves .main-svg").count() == 0
        page.pdf()
        assert page.locator(".curves .main-svg").count() > 0
        assert page.locator(".lr .main-svg").count() > 0

    def test_the_table_of_runs_is_filtered(self, visit, tmp_path):
        result = raced(tmp_path, problem(tmp_path), seeds=10)
        page = visit(made(tmp_path))
        rows = page.locator("table.runs tbody tr")
        assert rows.count() == 20
        page.locator(".more").click()
        assert rows.count() == len(result.runs) > 20
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
        assert "not raced, since trials of it were lost" in text  # a failed trial tunes nothing
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

    @pytest.mark.parametrize("width", [390, 768, 1440])
    @pytest.mark.parametrize("colours", ["light", "dark"])
    def test_savings_and_differences_are_drawn(self, visit, tmp_path, width, colours):
        budgets(tmp_path)
        page = visit(made(tmp_path), width, color_scheme=colours)
        drawn(page, ".budgets")
        assert page.locator(".answers dt").all_inner_texts()[-1] == "What would it save?"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Nothing lies outside its plot, and toolbars cover no plot.
        outside = page.evaluate(
            "[...document.querySelectorAll('.forest .dot')].filter(dot => {"
            "  const a = dot.getBoundingClientRect();"
            "  const b = dot.parentElement.getBoundingClientRect();"
            "  return a.left < b.left - 9 || a.right > b.right + 9 }).length"
        )
        assert outside == 0
        covered = page.evaluate(
            "[...document.querySelectorAll('.budgets')].filter(place => {"
            "  const bar = place.querySelector('.modebar-group').getBoundingClientRect();"
            "  const plot = place.querySelector('.bglayer rect').getBoundingClientRect();"
            "  return bar.bottom > plot.top + 2 }).length"
        )
        assert covered == 0
