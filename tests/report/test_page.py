"""The page as a file: complete, small, safe, and honest about what is missing."""

import csv
import json
import re
from html.parser import HTMLParser

import pytest

from ilbrl.report import write_page
from ilbrl.report.page import LINE_BUDGET, count, embedded, gauge, plain, short
from ilbrl.report.verdict import verdict
from ilbrl.report.wording import number, plus_minus, sentence
from ilbrl.results.folder import read_run

VOID = {"meta", "link", "input", "br"}


class Outline(HTMLParser):
    """Checks that tags close in order; collects ids, links, outside addresses and the text in sight."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.outside, self.text, self.headings = [], [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"][1:]] if tag == "a" else []
        self.outside += [found[a] for a in ("src", "href") if a in found and not found[a].startswith(("#", "data:"))]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)
        if self.open[-1:] == ["h2"] and data.strip():
            self.headings.append(data.strip())


def outline(page):
    found = Outline()
    found.feed(page.read_text())
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert set(found.links) <= set(found.ids)
    assert found.outside == []
    return re.sub(r"\s+", " ", " ".join(found.text))


def headings(page):
    found = Outline()
    found.feed(page.read_text())
    return found.headings


def pictures(page):
    (text,) = re.findall(r'<script type="application/json" id="pictures">(.*?)</script>', page.read_text())
    return json.loads(text)


def test_one_file_with_everything_inside(make_run, tmp_path):
    page = write_page([make_run()], tmp_path / "report.html")
    text = outline(page)
    assert page.stat().st_size < 5_000_000
    order = ["Deploy ILBRL", "The logs", "The evaluator: how far to trust offline values", "The candidates", "Training"]
    order += ["Final evaluation", "Audit", "Small print"]
    assert headings(page) == order
    assert "not comparable with D4RL" in text
    assert "ilbrl tune studies/locomotion-hopper.toml" in text
    assert "76 to 85 %" in text


def test_every_plot_has_its_picture(make_run, tmp_path):
    page = write_page(
        [make_run("a", study="a", revealed=True), make_run("b", study="b", task="ant")], tmp_path / "r.html"
    )
    drawn = pictures(page)
    wanted = set(re.findall(r'data-picture="([^"]+)"', page.read_text()))
    assert wanted <= set(drawn)
    offered = set(re.findall(r'<option value="([^"]+)"', page.read_text()))
    assert offered <= set(drawn)
    assert set(drawn) - wanted - offered <= {f"run{i}-ablation-offline" for i in range(2)}


def test_several_runs_are_compared_first(make_run, tmp_path):
    runs = [make_run(task, task=task, study=task, seed=i) for i, task in enumerate(["hopper", "ant"])]
    text = outline(write_page(runs, tmp_path / "report.html"))
    assert (
        text.index("highest interquartile mean over 2 tasks")
        < text.index("Comparison", 200)
        < text.index("Which policy?")
    )


def test_the_same_runs_make_the_same_page(make_run, tmp_path):
    run = make_run()
    assert write_page([run], tmp_path / "a.html").read_bytes() == write_page([run], tmp_path / "b.html").read_bytes()


def test_names_cannot_break_out(make_run, tmp_path):
    evil = "</script><script>alert(1)</script><b onmouseover=alert(2)>"
    run = make_run(study=evil, task=evil.replace("/", "\u2028"), algorithms=("bc",))
    page = write_page([run], tmp_path / "report.html")
    outline(page)
    assert "<script>alert" not in page.read_text()
    assert "<b onmouseover" not in page.read_text()


BROKEN = {
    "results.csv": "No candidate is recorded",
    "data.json": "Nothing is recorded about the logs",
    "tuning.json": "How far to trust the offline numbers is not known",
    "selection.json": "No policy to deploy",
    "curves.csv": "No training curves are recorded",
    "audit.json": "The command is not recorded",
    "values.csv": "values.csv is not there",
    "study.toml": "study.toml is not there",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_page_says_what_is_missing(make_run, tmp_path, name):
    run = make_run(algorithms=("ilbrl", "bc"), configurations=1, seeds=2)
    (run / name).unlink()
    text = outline(write_page([run], tmp_path / "report.html"))
    assert "Not everything is here" in text
    assert BROKEN[name] in text


def test_a_run_killed_while_training_has_a_page(make_run, tmp_path):
    run = make_run(algorithms=("bc",))
    for name in ("results.csv", "selection.json", "final.json", "values.csv", "curves.csv"):
        (run / name).unlink()
    text = outline(write_page([run], tmp_path / "report.html"))
    assert "No policy to deploy" in text
    assert "continue it with the same command" in text


def test_empty_objects_are_no_error(make_run, tmp_path):
    run = make_run(algorithms=("bc",), configurations=1, seeds=1)
    for path in run.glob("*.json"):
        path.write_text("{}")
    assert "No policy to deploy" in outline(write_page([run], tmp_path / "report.html"))


def test_a_command_that_is_no_text_is_left_out_and_named(make_run, tmp_path):
    run = make_run(algorithms=("bc",), configurations=1, seeds=1)
    audit = json.loads((run / "audit.json").read_text())
    (run / "audit.json").write_text(json.dumps(audit | {"command": 7}))
    text = outline(write_page([run], tmp_path / "report.html"))
    assert "audit.json: command: must be text, got 7; it is left out" in text
    assert "The command is not recorded" in text


def test_logs_without_an_environment_have_a_page(make_run, tmp_path):
    text = outline(write_page([make_run(played=False, scored=False)], tmp_path / "report.html"))
    assert "No selected policy was played in an environment" in text
    assert "not comparable with D4RL" not in text  # nothing is scored here


def test_a_played_run_without_its_results_has_a_page_that_says_so(make_run, tmp_path):
    runs = [make_run(name, study=name, algorithms=("bc",), configurations=1) for name in "ab"]
    for run in runs:
        (run / "results.csv").unlink()
    text = outline(write_page(runs, tmp_path / "report.html"))
    assert "was played in an environment" not in text
    assert "not played" not in text
    assert "An environment was played, but results.csv, which shows by whom, is missing or damaged" in text


def test_a_selection_from_values_still_moving_says_so(make_run, tmp_path):
    runs = [make_run(name, study=name, algorithms=("bc",), configurations=1) for name in "ab"]
    assert "still moving had to count" not in outline(write_page(runs, tmp_path / "settled.html"))
    selection = json.loads((runs[1] / "selection.json").read_text())
    selection["algorithms"]["bc"]["moving"] = True
    (runs[1] / "selection.json").write_text(json.dumps(selection))
    page = write_page(runs, tmp_path / "moving.html")
    text = outline(page)
    assert text.count("Too few of its evaluations had converged: values still moving had to count.") == 1
    assert page.read_text().count('<span class="state moving">still moving</span>') == 1  # beside the value compared
    labels = [pictures(page)[f"run{i}-offline-values"]["series"][0]["labels"] for i in range(2)]
    assert labels == [["BC, configuration 0"], ["BC, configuration 0, still moving"]]


def test_distances_are_shown_where_they_are_known(make_run, tmp_path):
    run = make_run(algorithms=("bc",), configurations=2, seeds=2)
    page = write_page([run], tmp_path / "with.html").read_text()
    assert ">Distance</th>" in page
    assert page.count("<td>0.11</td>") == 2  # configuration 1, two seeds
    results = run / "results.csv"
    rows = list(csv.DictReader(results.read_text().splitlines()))
    with results.open("w") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != "distance"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    page = write_page([run], tmp_path / "without.html").read_text()  # a run from before they were recorded
    assert ">Distance</th>" not in page
    assert "Not everything is here" not in page


def test_lines_are_thinned_to_a_budget(make_run, tmp_path, monkeypatch):
    monkeypatch.setattr("ilbrl.report.page.LINE_BUDGET", 1)
    drawn = pictures(write_page([make_run(algorithms=("bc",))], tmp_path / "report.html"))
    series = drawn["run0-training-mean_q"]["series"][0]
    assert len(series["x"]) == 12
    assert (series["x"][0], series["x"][-1]) == (4_000, 200_000)
    assert LINE_BUDGET * 4 * 9 < 3_000_000  # four numbers of nine letters: what lines may weigh


def test_the_gauge_places_the_policy_between_logs_and_expert(make_run):
    run = read_run(make_run(algorithms=("ilbrl",), trust="trust"))
    said = verdict(run)
    marks = gauge(run, said)
    assert marks is not None
    assert (marks["logs"], marks["expert"]) == (
        (59.2, pytest.approx(100 / 12)),
        (110.2, pytest.approx(1100 / 12)),
    )
    assert marks["low"][1] < marks["selected"][1] < marks["high"][1]
    assert said.score is not None
    assert marks["selected"][1] == pytest.approx(100 * (said.score.value - 59.2 + 5.1) / (51 + 10.2))
    assert gauge(read_run(make_run("b", played=False)), verdict(read_run(make_run("c", played=False)))) is None


def test_words_for_numbers():
    assert [number(v) for v in (None, float("nan"), 1234.56, 2.053, -0.0123)] == ["–", "–", "1,234.6", "2.05", "-0.012"]
    assert [plus_minus(2.053, h) for h in (0.0131, None, float("nan"))] == ["2.05 ± 0.01", "2.05", "2.05"]
    assert [sentence(text) for text in ("few runs", "Done.", "")] == ["Few runs.", "Done.", ""]
    assert count({"steps": 3000, "episodes": 3}) == "3,000 steps, 3 episodes"
    assert [short(v) for v in (0.00031234, [64, 64], "relu")] == ["0.000312", "[64, 64]", "relu"]
    assert plain({"lr": {"kind": "uniform", "values": [0.2, 0.5]}, "n": 3}) == "lr uniform(0.2, 0.5); n 3"
    assert embedded({"a": "</script>\u2028"}) == '{"a":"\\u003c/script>\\u2028"}'
