"""The page in a real browser: silent, alone, drawn, sortable, filterable, on a desk and in a pocket."""

import importlib.util
from pathlib import Path

import pytest

from ilbrl.report import write_page

pytestmark = pytest.mark.slow  # a browser has to start


_spec = importlib.util.spec_from_file_location("made_up_runs", Path(__file__).parents[1] / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_made_up = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_made_up)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return write_page([_made_up.write_run(folder / "run", revealed=True)], folder / "report.html")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    runs = [_made_up.write_run(folder / task, task, task, i) for i, task in enumerate(["hopper", "ant"])]
    return write_page(runs, folder / "report.html")


@pytest.fixture(autouse=True)
def silent(tab):
    """No test may leave a console message, an exception or a request to anywhere behind."""
    tab.problems.clear()
    tab.requests.clear()
    yield
    assert tab.problems == []
    assert [address for address in tab.requests if not address.startswith(("file:", "data:", "about:"))] == []


def test_every_plot_is_drawn(tab, page):
    tab.open(page)
    names = tab.evaluate("[...document.querySelectorAll('.plot')].map(p => p.dataset.picture)")
    assert len(names) == 16
    for name in names:  # each is drawn when it comes into sight
        tab.show(f"[data-picture={name}]")
        assert tab.evaluate(f"!!document.querySelector('[data-picture={name}] svg.main-svg .trace')"), name
    points = "document.querySelector('[data-picture=run0-calibration]').querySelectorAll('.points path').length"
    assert tab.evaluate(points) == 2  # the two known policies
    bars = "document.querySelector('[data-picture=run0-rewards]').querySelectorAll('.bars .point').length"
    assert tab.evaluate(bars) == 20


def column(tab, number):
    cells = f"[...document.querySelectorAll('#run0-table tbody tr')].map(r => r.cells[{number}].textContent)"
    return tab.evaluate(cells)


def test_headings_sort(tab, page):
    tab.open(page)
    click = "document.querySelectorAll('#run0-table thead th')[3].click()"
    tab.evaluate(click)
    down = column(tab, 3)
    values = [float(cell) for cell in down if cell != "–"]
    assert values == sorted(values, reverse=True)
    assert down[-1] == "–"  # what diverged has no value and stays last
    tab.evaluate(click)
    up = column(tab, 3)
    assert [float(cell) for cell in up if cell != "–"] == sorted(values)
    assert up[-1] == "–"


def test_filters_hide_rows(tab, page):
    tab.open(page)
    shown = (
        "[...document.querySelectorAll('#run0-table tbody tr')].filter(r => !r.hidden).map(r => r.dataset.algorithm)"
    )
    assert len(tab.evaluate(shown)) == 60
    typed = "const f = document.querySelector('.filter [type=search]'); f.value = {!r};"
    typed += " f.dispatchEvent(new Event('input', {{bubbles: true}}))"
    tab.evaluate("{" + typed.format("smodice moving") + "}")
    assert tab.evaluate(shown) == ["smodice"] * 3
    tab.evaluate("{" + typed.format("") + "}")
    tab.evaluate("document.querySelector('.filter input[value=bc]').click()")
    assert len(tab.evaluate(shown)) == 48
    tab.evaluate("document.querySelector('.filter [data-only]').click()")
    assert len(tab.evaluate(shown)) == 12
    assert tab.evaluate("document.querySelector('.filter output').textContent") == "12 of 60 shown"


def test_another_metric_can_be_picked(tab, page):
    tab.open(page)
    tab.show("#run0-training")
    title = "document.querySelector('#run0-metric .ytitle').textContent"
    assert tab.evaluate(title) == "actor loss"
    pick = "const s = document.querySelector('[data-swap]'); s.value = 'run0-training-mean_q';"
    tab.evaluate("{" + pick + " s.dispatchEvent(new Event('change'))}")
    tab.wait(f"{title} === 'mean q'")


def test_runs_are_tabs(tab, comparison):
    tab.open(comparison)
    shown = "[...document.querySelectorAll('article')].filter(a => a.offsetParent).map(a => a.id)"
    assert tab.evaluate(shown) == ["run0"]
    tab.evaluate("document.querySelectorAll('.tabs button')[1].click()")
    assert tab.evaluate(shown) == ["run1"]
    tab.show("#run1-candidates")
    assert tab.evaluate("!!document.querySelector('[data-picture=run1-offline-values] svg.main-svg')")


def test_dark_is_followed_and_can_be_switched(tab, page):
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.open(page, dark=True)
    assert tab.evaluate(ground) == "rgb(18, 22, 27)"
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.evaluate(ground) == "rgb(251, 251, 250)"


def test_paper_shows_everything_in_the_light(tab, comparison):
    tab.open(comparison, dark=True)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.evaluate("[...document.querySelectorAll('article')].every(a => a.offsetParent)")
    assert tab.evaluate("[...document.querySelectorAll('.plot')].every(p => p.querySelector('svg.main-svg'))")
    assert tab.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    tab.call("Emulation.setEmulatedMedia", media="")
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate("[...document.querySelectorAll('article')].filter(a => a.offsetParent).length") == 1


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_nothing_sticks_out_sideways(tab, page, width):
    tab.open(page, width=width)
    tab.show("#run0-candidates")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_screenshots_are_kept(tab, page, comparison, artefacts):
    for name, file, where, width, dark in (
        ("top", page, "body", 1280, False),
        ("candidates", page, "#run0-candidates", 1280, False),
        ("calibration", page, "#run0-evaluator", 1280, False),
        ("mobile", page, "body", 390, False),
        ("dark", comparison, "body", 1280, True),
    ):
        tab.open(file, width=width, dark=dark)
        tab.show(where)
        tab.screenshot(artefacts / f"{name}.png")
        assert (artefacts / f"{name}.png").stat().st_size > 10_000


def test_a_broken_run_opens_too(tab, tmp_path):
    run = _made_up.write_run(tmp_path / "run", algorithms=("bc",))
    for name in ("results.csv", "selection.json", "final.json", "tuning.json"):
        (run / name).unlink()
    (run / "data.json").write_text('{"datasets": {"expert": ')
    tab.open(write_page([run], tmp_path / "report.html"))
    said = tab.evaluate("document.querySelector('.missing').textContent")
    assert "data.json is damaged" in said
    assert "results.csv is not there" in said
