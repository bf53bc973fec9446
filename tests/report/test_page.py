"""The page as a file: complete, small, safe, and honest about what is missing."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from ilbrl.report import write_page
from ilbrl.report.page import LINE_BUDGET, count, coverage, different, error, gauge
from ilbrl.report.verdict import verdict
from ilbrl.results import read_run
from ilbrl.results.schema import KnownEstimate

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


def test_one_file_with_everything_inside(played, tmp_path):
    page = write_page([played], tmp_path / "report.html")
    text = outline(page)
    assert page.stat().st_size < 5_000_000
    assert headings(page)[1:] == [
        "The logs", "The evaluator: how far to trust offline values", "The candidates", "Training", "Final evaluation",
        "Audit", "Small print",
    ]  # fmt: skip
    assert "True return of an episode of this file" in text
    assert "No candidate touched an environment before the selection was made" in text


def test_every_plot_has_its_picture(played, committed, tmp_path):
    page = write_page([played, committed["hopper"]], tmp_path / "r.html")
    drawn = pictures(page)
    wanted = set(re.findall(r'data-picture="([^"]+)"', page.read_text()))
    assert wanted <= set(drawn)
    offered = set(re.findall(r'<option value="([^"]+)"', page.read_text()))
    assert offered <= set(drawn)
    assert set(drawn) - wanted - offered <= {"run1-ablation-offline"}


def test_several_runs_are_compared_first(committed, tmp_path):
    text = outline(write_page(list(committed.values()), tmp_path / "report.html"))
    sections = [
        text.index(said) for said in ("interquartile mean over 4 tasks", "D4RL-normalised scores", "Which policy?")
    ]
    assert sections == sorted(sections)
    assert "not comparable with D4RL" in text


def test_the_same_runs_make_the_same_page(played, tmp_path):
    pages = [write_page([played], tmp_path / name).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]


def test_what_nothing_vouches_for_is_marked(played, copy, tmp_path):
    assert "not checked" not in outline(write_page([played], tmp_path / "whole.html"))
    text = outline(write_page([copy(played)], tmp_path / "without-hashes.html"))
    assert "How good is it? not checked" in text
    assert "final.json cannot be checked: audit.json has no hash of it." in text


def test_an_edited_score_is_not_shown(played, tmp_path):
    folder = shutil.copytree(played, tmp_path / "edited")
    final = json.loads((folder / "final.json").read_text())
    for each in final["scores"]:
        each["return_mean"] = 104.2
    (folder / "final.json").write_text(json.dumps(final))
    text = outline(write_page([folder], tmp_path / "r.html"))
    assert "104.2" not in text
    assert "final.json is not what the study wrote" in text


def test_rank_correlations_of_two_policies_are_not_shown(committed, copy, edit, tmp_path):
    folder = copy(committed["hopper"])
    assert "Spearman" not in outline(write_page([folder], tmp_path / "two.html"))

    def third(tuning):
        for each in tuning["configurations"]:
            each["policies"]["medium"] = each["policies"]["expert"]

    edit(folder / "tuning.json", third)
    assert "Spearman" in outline(write_page([folder], tmp_path / "three.html"))


def test_the_errors_of_learned_models_stand_beside_the_calibration(committed, copy, edit, tmp_path):
    errors = {
        "held_out_loss": [0.25, 0.5],
        "steps": [1, 100],
        "many_step": [[0.01, 0.75], [0.02, None]],
        "left_out": [],
    }
    damaged = errors | {"many_step": [[0.01], [0.02, 0.5]]}
    folder = copy(committed["hopper"])
    assert "wrong by" not in outline(write_page([folder], tmp_path / "without.html"))
    edit(folder / "tuning.json", lambda tuning: tuning.update(model_errors=[errors, damaged]))
    page = write_page([folder], tmp_path / "with.html")
    text = outline(page)
    assert "After 100 steps the models are wrong by 0.75 standard deviations of a state, after 1 step by 0.015." in text
    assert "model 1 0.02 – 0.5" in text  # the loss comes last
    assert page.read_text().index("run0-calibration") < page.read_text().index("run0-model-errors")
    drawn = pictures(page)["run0-model-errors"]
    assert (drawn["x_ticks"][-1], drawn["y_ticks"][0], len(drawn["series"])) == (100, 0.01, 2)


def test_the_command_that_reveals_names_the_folder_as_it_was_named(played, copy, edit, tmp_path):
    folder = copy(played, "my run")
    (folder / "reveal.json").unlink()

    def hide(row):
        if row["selected"] not in ("1", "True"):
            row.update(true_return="", true_score="", true_episodes="")

    edit(folder / "results.csv", hide)
    assert f"ilbrl tune --reveal '{folder}' plays the others" in outline(write_page([folder], tmp_path / "r.html"))


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
def test_a_page_says_what_is_missing(played, copy, tmp_path, name):
    run = copy(played)
    (run / name).unlink()
    text = outline(write_page([run], tmp_path / "report.html"))
    assert "Not everything is here" in text
    assert BROKEN[name] in text


def test_a_run_killed_while_training_has_a_page(played, copy, tmp_path):
    run = copy(played)
    for name in ("results.csv", "selection.json", "final.json", "reveal.json", "values.csv", "curves.csv"):
        (run / name).unlink()
    text = outline(write_page([run], tmp_path / "report.html"))
    assert "No policy to deploy" in text
    assert "continue it with the same command" in text


def test_empty_objects_are_no_error(played, copy, tmp_path):
    run = copy(played)
    for path in run.glob("*.json"):
        path.write_text("{}")
    assert "No policy to deploy" in outline(write_page([run], tmp_path / "report.html"))


def test_a_command_that_is_no_text_is_left_out_and_named(played, copy, edit, tmp_path):
    run = copy(played)
    edit(run / "audit.json", lambda audit: audit.update(command=7))
    text = outline(write_page([run], tmp_path / "report.html"))
    assert "audit.json: command: must be text, got 7; it is left out" in text
    assert "The command is not recorded" in text


def test_logs_without_an_environment_have_a_page(finished, tmp_path):
    text = outline(write_page([finished], tmp_path / "report.html"))
    assert "No selected policy was played in an environment" in text
    assert "not comparable with D4RL" not in text  # nothing is scored here


def test_a_played_run_without_its_results_has_a_page_that_says_so(played, copy, edit, tmp_path):
    run = copy(played)
    edit(run / "selection.json", lambda s: [each.update(committee=None) for each in s["algorithms"].values()])
    (run / "results.csv").unlink()
    text = outline(write_page([run, played], tmp_path / "report.html"))
    assert "not played" not in text
    assert "An environment was played, but results.csv, which shows by whom, is missing or damaged" in text


def test_a_selection_from_values_still_moving_says_so(finished, copy, edit, tmp_path):
    run = copy(finished)
    edit(run / "results.csv", lambda row: row.update(study="moving"))
    edit(run / "selection.json", lambda s: [each.update(moving=True) for each in s["algorithms"].values()])
    page = write_page([finished, run], tmp_path / "moving.html")
    assert outline(page).count("Too few of its evaluations had converged: values still moving had to count.") == 1
    assert page.read_text().count('<span class="state moving">still moving</span>') == 1  # beside the value compared
    labels = [pictures(page)[f"run{i}-offline-values"]["series"][0]["labels"][0] for i in range(2)]
    assert [label.endswith(", still moving") for label in labels] == [False, True]


def test_both_checks_on_the_known_policies_are_shown(finished, copy, edit, tmp_path):
    """With their own logs, and without them where that was tried."""
    run, unseen = copy(finished), {"rank_error": 2.0, "bias": -0.315, "relative_value_error": 0.62, "regret_at_1": 1.0}
    edit(run / "tuning.json", lambda tuning: tuning["trust"].update(bias=0.042, unseen=None))
    row = '<th scope="row">bias: the same with its sign</th><td>4.2 %</td>'
    assert f"{row}</tr>" in write_page([run], tmp_path / "seen.html").read_text()
    edit(run / "tuning.json", lambda tuning: tuning["trust"].update(unseen=unseen))
    page = write_page([run], tmp_path / "both.html").read_text()
    assert f"{row}<td>-31.5 %</td></tr>" in page
    assert "Without them, as candidates are" in page


def test_distances_are_shown_where_they_are_known(finished, copy, edit, tmp_path):
    run = copy(finished)
    assert ">Distance</th>" in write_page([run], tmp_path / "with.html").read_text()
    edit(run / "results.csv", lambda row: row.update(distance=""))
    assert ">Distance</th>" not in write_page([run], tmp_path / "without.html").read_text()


def test_what_the_columns_of_the_candidates_mean(finished, copy, edit, tmp_path):
    page = write_page([finished], tmp_path / "seeds.html").read_text()
    assert "standard errors over them and over initial states, without the evaluator's own error" in " ".join(
        page.split()
    )
    assert "title=\"How far it leads from what the evaluator knows, in the evaluator's own measure; beyond" in page
    folder = copy(finished)
    edit(folder / "results.csv", lambda row: row.update(member="0"))
    page = write_page([folder], tmp_path / "models.html").read_text()
    assert "the spread of models is not divided by their number: they are rivals, of which one may be right" in page


def test_lines_are_thinned_to_a_budget(finished, tmp_path, monkeypatch):
    monkeypatch.setattr("ilbrl.report.page.LINE_BUDGET", 1)
    drawn = pictures(write_page([finished], tmp_path / "report.html"))
    whole = max(read_run(finished).curves.values(), key=lambda curve: len(curve.updates)).updates
    series = drawn["run0-training-actor_loss"]["series"][0]
    assert len(series["x"]) == min(12, len(whole))
    assert (series["x"][0], series["x"][-1]) == (whole[0], whole[-1])
    assert LINE_BUDGET * 4 * 9 < 3_000_000  # four numbers of nine letters: what lines may weigh


def test_the_gauge_places_the_file_between_logs_and_expert(committed, finished):
    run = read_run(committed["halfcheetah"])
    said = verdict(run)
    marks = gauge(run, said)
    assert marks is not None
    assert marks["logs"][1] < marks["low"][1] < marks["selected"][1] < marks["high"][1] < marks["expert"][1]
    logs, expert = marks["logs"][0], marks["expert"][0]
    assert said.score is not None
    assert marks["selected"][1] == pytest.approx(100 / 12 + 1000 / 12 * (said.score.value - logs) / (expert - logs))
    assert gauge(read_run(finished), verdict(read_run(finished))) is None


def test_words_of_the_page(committed):
    assert count({"steps": 3000, "episodes": 3}) == "3,000 steps, 3 episodes"
    assert different([{"a": 1, "b": [2]}, {"a": 1, "b": [3]}]) == {"a": [1], "b": [[2], [3]]}
    assert [error(KnownEstimate(*pair)) for pair in ((3.0, None, 1.0), (1.0, None, 3.0), (1.0,))] == [
        "+2.00",
        "-2.00",
        "–",
    ]
    assert coverage(read_run(committed["hopper"])) == (
        "Coverage of the expert: 49 % of the expert's steps are the nearest expert step of some logged step; the mean"
        " intrinsic reward of the logs is 0.46."
    )
