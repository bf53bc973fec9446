"""The page in a real browser: silent, alone, drawn, sortable, filterable, on a desk and in a pocket."""

import pytest

from ilbrl.report import write_page

pytestmark = pytest.mark.slow  # a browser has to start


@pytest.fixture(scope="module")
def page(played, tmp_path_factory):
    return write_page([played], tmp_path_factory.mktemp("one") / "report.html")


@pytest.fixture(scope="module")
def comparison(committed, tmp_path_factory):
    return write_page([committed["hopper"], committed["ant"]], tmp_path_factory.mktemp("several") / "report.html")


@pytest.fixture(autouse=True)
def silent(tab):
    """No test may leave a console message, an exception or a request to anywhere behind."""
    tab.problems.clear()
    tab.requests.clear()
    yield
    assert tab.problems == []
    assert [address for address in tab.requests if not address.startswith(("file:", "data:", "about:"))] == []


ALL_DRAWN = "[...document.querySelectorAll('.plot')].every(p => !p.offsetParent || p.querySelector('svg.main-svg'))"


def test_every_plot_is_drawn_without_scrolling(tab, page):
    """A picture of the whole page shows them all."""
    tab.open(page)
    tab.wait(ALL_DRAWN)
    names = tab.evaluate("[...document.querySelectorAll('.plot')].map(p => p.dataset.picture)")
    assert {"run0-calibration", "run0-rewards", "run0-regret", "scores-per-task"} <= set(names)
    for name in names:
        assert tab.evaluate(f"!!document.querySelector('[data-picture={name}] svg.main-svg .trace')"), name
    points = "document.querySelector('[data-picture=run0-calibration]').querySelectorAll('.points path').length"
    assert tab.evaluate(points) == 2  # the two known policies


def test_labels_of_lines_stand_outside_the_frame_and_apart(tab, page):
    tab.open(page)
    tab.wait(ALL_DRAWN)
    found = """(() => {
      const plot = document.querySelector('[data-picture=run0-value-curves]');
      const right = plot.querySelector('.cartesianlayer .gridlayer').getBoundingClientRect().right;
      const labels = [...plot.querySelectorAll('.annotation-text')].map(t => t.getBoundingClientRect());
      const apart = (l, m) => l === m || l.bottom <= m.top + 2 || m.bottom <= l.top + 2;
      return [labels.length, labels.every(l => l.left >= right), labels.every(l => labels.every(m => apart(l, m)))];
    })()"""
    assert tab.evaluate(found) == [2, True, True]


def test_hostile_names_make_no_links(tab, hostile, tmp_path):
    tab.open(write_page([hostile('<a href="https://evil.example">bc</a><b>x</b>')], tmp_path / "evil.html"))
    tab.wait(ALL_DRAWN)
    assert tab.evaluate("document.querySelectorAll('svg a').length") == 0
    legends = "[...document.querySelectorAll('svg .legendtext')].some(t => t.textContent.includes('<a href='))"
    assert tab.evaluate(legends)  # shown as it is written


def column(tab, number):
    cells = f"[...document.querySelectorAll('#run0-table tbody tr')].map(r => r.cells[{number}].textContent)"
    return tab.evaluate(cells)


def test_headings_sort(tab, comparison):
    tab.open(comparison)
    click = "document.querySelectorAll('#run0-table thead th')[3].click()"
    tab.evaluate(click)
    down = column(tab, 3)
    values = [float(cell) for cell in down if not cell.startswith("(")]
    assert values == sorted(values, reverse=True)
    tab.evaluate(click)
    up = column(tab, 3)
    assert [float(cell) for cell in up if not cell.startswith("(")] == sorted(values)
    assert [cell.startswith("(") for cell in up] == sorted(cell.startswith("(") for cell in up)  # unsettled stay last


def test_filters_hide_rows(tab, comparison):
    tab.open(comparison)
    shown = (
        "[...document.querySelectorAll('#run0-table tbody tr')].filter(r => !r.hidden).map(r => r.dataset.algorithm)"
    )
    assert len(tab.evaluate(shown)) == 60
    typed = "const f = document.querySelector('.filter [type=search]'); f.value = {!r};"
    typed += " f.dispatchEvent(new Event('input', {{bubbles: true}}))"
    tab.evaluate("{" + typed.format("smodice moving") + "}")
    assert set(tab.evaluate(shown)) == {"smodice"}
    tab.evaluate("{" + typed.format("") + "}")
    tab.evaluate("document.querySelector('.filter input[value=bc]').click()")
    assert len(tab.evaluate(shown)) == 48
    tab.evaluate("document.querySelector('.filter [data-only]').click()")
    assert len(tab.evaluate(shown)) == 12
    assert tab.evaluate("document.querySelector('.filter output').textContent") == "12 of 60 shown"


def test_tables_show_that_they_go_on(tab, comparison):
    tab.open(comparison, width=390)
    table = "document.querySelector('#run0-table').parentElement"
    marks = f"[...{table}.classList].filter(c => c.startsWith('more')).sort()"
    hint = f"getComputedStyle({table}.previousElementSibling).display"
    assert tab.evaluate(marks) == ["more-below", "more-right"]
    assert tab.evaluate(hint) == "block"
    tab.evaluate(f"{table}.scrollTo(1e6, 1e6)")
    tab.wait(f"{marks}.join() === 'more-left'")
    assert tab.evaluate(hint) == "none"


def test_the_menu_is_whole_on_a_phone(tab, page):
    tab.open(page, width=390)
    links = "[...document.querySelectorAll('nav a')].map(a => a.getBoundingClientRect())"
    assert tab.evaluate(f"{links}.every(r => r.left >= 0 && r.right <= 390 && r.height > 0)")


def test_another_metric_can_be_picked(tab, page):
    tab.open(page)
    tab.show("#run0-training")
    title = "document.querySelector('#run0-metric .ytitle').textContent"
    assert tab.evaluate(title) == "actor loss"
    pick = "const s = document.querySelector('[data-swap]'); s.value = 'run0-training-critic_loss';"
    tab.evaluate("{" + pick + " s.dispatchEvent(new Event('change'))}")
    tab.wait(f"{title} === 'critic loss'")


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
        tab.wait(ALL_DRAWN)
        tab.screenshot(artefacts / f"{name}.png")
        assert (artefacts / f"{name}.png").stat().st_size > 10_000


def test_a_broken_run_opens_too(tab, played, copy, tmp_path):
    run = copy(played)
    for name in ("results.csv", "selection.json", "final.json", "tuning.json"):
        (run / name).unlink()
    (run / "data.json").write_text('{"datasets": {"expert": ')
    tab.open(write_page([run], tmp_path / "report.html"))
    said = tab.evaluate("document.querySelector('.missing').textContent")
    assert "data.json" in said
    assert "results.csv is not there" in said
