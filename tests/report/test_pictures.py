"""Pictures as data, and their files."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ilbrl.agents import AGENTS
from ilbrl.base.errors import IlbrlError
from ilbrl.report.pictures import STYLES, Line, Picture, Series, band, display, frame, log_ticks, paper, styles
from ilbrl.report.pictures.evaluator import (
    BLIND,
    SEEN,
    Point,
    courses,
    estimates_against_truth,
    model_errors,
    predicted,
    values_against_scores,
)
from ilbrl.report.pictures.runs import of_run
from ilbrl.report.pictures.scores import of_scores
from ilbrl.results import read_run
from ilbrl.results.schema import ErrorsRecord
from ilbrl.results.tables import Curve

OF_RUN = {
    "rewards", "returns", "calibration", "value-curves", "candidate-values", "offline-values",
    "estimated-against-true", "regret",
}  # fmt: skip


@pytest.fixture(scope="module")
def drawn(played):
    return of_run(read_run(played))


@pytest.fixture(scope="module")
def scores(summary):
    return of_scores(summary.board, summary.aggregates, np.random.default_rng(0))


def test_every_picture_of_the_paper_and_more(drawn, scores, committed):
    assert OF_RUN | {"training-actor_loss"} <= set(drawn)
    assert {name for name in set(drawn) - OF_RUN if not name.startswith("training-")} == set()
    assert set(scores) == {"iqm", "profile", "per-task", "improvement", "ablation-iqm", "ablation-profile"}
    assert "ablation-offline" in of_run(read_run(committed["hopper"]))


def test_interval_bars_show_the_statistics_and_the_line_of_the_logs(scores, summary):
    picture = scores["iqm"]
    assert picture.y_names[-1] == "ILBRL"  # the first is drawn on top
    top = picture.series[0]
    found = summary.aggregates["ilbrl"]["iqm"]
    assert (top.x[0], top.low[0], top.high[0], top.y[0]) == (found.point, found.low, found.high, 4)
    assert Line("x", pytest.approx(summary.board.reference("logs")), "logs") in picture.lines


def test_profiles_fall_from_one_to_zero(scores):
    for series in scores["profile"].series:
        assert (series.y[0], series.y[-1]) == (1.0, 0.0)
        assert (np.diff(series.y) <= 0).all()
        assert (series.low <= series.y + 1e-12).all()
        assert (series.y <= series.high + 1e-12).all()


def test_the_ablation_shows_the_two_and_no_other(scores):
    for name in ("ablation-iqm", "ablation-profile"):
        assert len(scores[name].series) == 2
        assert all(s.name.startswith("ILBRL") for s in scores[name].series)


def test_calibration_is_of_the_chosen_evaluator(drawn, played):
    run = read_run(played)
    assert run.tuning.chosen_evaluator is not None
    chosen = run.tuning.chosen_evaluator.policies["expert"]
    expert = next(s for s in drawn["calibration"].series if s.name == "expert")
    assert (expert.x[0], expert.y[0]) == (chosen.truth, chosen.estimate)
    assert (expert.high[0] - expert.y[0]) / 1.96 == pytest.approx(chosen.std_error, rel=1e-3)
    assert drawn["calibration"].x == f"true {run.tuning.quantity}"


def test_value_curves_are_of_the_chosen_evaluator(drawn):
    groups = {s.group for s in drawn["value-curves"].series}
    assert sum(group.endswith(", chosen") for group in groups) == 1
    assert len(drawn["value-curves"].lines) == 2  # the truths


def test_what_was_selected_is_drawn_strong(drawn):
    strong = {s.name for s in drawn["candidate-values"].series if s.emphasis}
    assert {name.rsplit(" ", 1)[0] for name in strong} == {"ILBRL", "BC"}
    assert len(strong) == 2


def test_configurations_are_averaged_over_their_seeds(drawn, played):
    run = read_run(played)
    own = [c for c in run.candidates if c.algorithm == "bc" and c.configuration == 0]
    labels = {label: i for s in drawn["estimated-against-true"].series for i, label in enumerate(s.labels)}
    assert "BC 0, 2 seeds" in labels
    (series,) = [s for s in drawn["estimated-against-true"].series if "BC 0, 2 seeds" in s.labels]
    at = series.labels.index("BC 0, 2 seeds")
    truths = [np.mean(c.true.discounted_returns) for c in own if c.true]
    assert drawn["estimated-against-true"].x == f"true {run.tuning.quantity}"  # like with like
    assert series.x[at] == pytest.approx(np.mean(truths))
    assert series.y[at] == pytest.approx(np.mean([c.offline_value for c in own]))


def test_a_band_is_the_mean_and_range_of_its_seeds():
    updates = np.arange(1.0, 4.0)
    seeds = [Curve(updates, np.array([1.0, 2.0, 3.0])), Curve(updates, np.array([3.0, 4.0, np.nan]))]
    found = band("name", STYLES[0], seeds)
    np.testing.assert_allclose(found.y, [2.0, 3.0, 3.0])  # a seed that has diverged no longer counts
    np.testing.assert_allclose(found.low, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(found.high, [3.0, 4.0, 3.0])


def test_the_frame_leaves_out_what_diverged():
    calm, wild = (Series("s", STYLES[0], np.arange(3), np.array(y)) for y in ([0.0, 6.0, 12.0], [0.0, 1e8, np.nan]))
    assert frame([calm]) == (-1.0, 13.0)
    assert frame([calm], [Line("y", 24.0, "truth")], margin=0.5) == (-12.0, 36.0)
    assert frame([wild]) is not None
    assert frame([]) is None


def test_a_folder_without_the_data_gives_fewer_pictures(finished, copy):
    folder = copy(finished)
    for name in ("tuning.json", "curves.csv", "data.json"):
        (folder / name).unlink()
    assert set(of_run(read_run(folder))) == {"candidate-values", "offline-values"}


def test_curves_of_algorithms_that_the_results_lack_are_drawn(finished, copy):
    folder = copy(finished)
    lines = (folder / "results.csv").read_text().splitlines()
    (folder / "results.csv").write_text("\n".join(lines[:3]))  # the first candidate alone
    assert {s.group for s in of_run(read_run(folder))["candidate-values"].series} == {"ILBRL", "BC"}


def test_seen_and_blind_policies_are_told_apart():
    points = [Point("rung1", 100.0, 120.0, 10.0), Point("expert", 300.0, 290.0, 5.0), Point("medium", 200.0, 205.0)]
    picture = predicted(points, blind=[True, False, False])
    assert [(s.name, s.labels) for s in picture.series] == [(SEEN, ("expert", "medium")), (BLIND, ("rung1",))]
    assert (picture.series[1].x, picture.series[1].y, picture.series[1].high) == (100.0, 120.0, 130.0)
    assert (picture.x, picture.identity) == ("true return of an episode", True)


def test_known_policies_valued_without_their_own_logs_stand_beside_the_others(played, copy, edit):
    folder = copy(played)

    def unseen(tuning):
        for each in tuning["configurations"]:
            each["unseen"] = {"logs": each["policies"]["logs"] | {"estimate": 7.0}}

    edit(folder / "tuning.json", unseen)
    seen, blind = of_run(read_run(folder))["calibration"].series
    assert (seen.name, len(seen.x), blind.name, blind.y) == (SEEN, 2, BLIND, [7.0])


def test_scores_of_another_quantity_stay_scores(committed):
    picture = of_run(read_run(committed["hopper"]))["estimated-against-true"]
    assert (picture.x, picture.identity) == ("true normalised score", False)


def test_values_against_scores_draw_the_selected_strong():
    points = [Point("bc 0", 1.0, 2.0, 0.1, "bc", False), Point("bc 1", 2.0, 3.0, 0.1, "bc", True)]
    picture = values_against_scores(points, styles(["bc"]), "true return", "return", same=True)
    assert picture is not None
    assert not picture.identity  # no estimate is as low as the truths
    near = [point._replace(estimate=point.truth + 0.5) for point in points]
    picture = values_against_scores(near, styles(["bc"]), "true return", "return", same=True)
    assert picture is not None
    assert picture.identity
    assert [(s.name, s.emphasis) for s in picture.series] == [("BC", False), ("BC, selected", True)]
    assert values_against_scores([], {}, "true return", "return") is None


def test_a_course_that_diverged_does_not_flatten_the_others():
    updates = np.arange(3.0)
    calm, wild = Curve(updates, np.array([0.0, 5.0, 12.0])), Curve(updates, np.array([0.0, 1e9, 1e12]))
    picture = courses("expert", [(calm, "fine", "sound"), (wild, "broken", "void")], "discounted value", truth=10.0)
    assert [s.name for s in picture.series] == ["fine", "broken"]  # the words of any estimator
    assert picture.y_range == (-1.0, 13.0)
    assert picture.lines == (Line("y", 10.0, "true value"),)


ERRORS = ErrorsRecord((0.1, 0.2, 0.3), (1, 10, 100), ((0.02, 0.1, 0.5), (0.04, 0.1, 0.7), (0.0, 0.1, None)), (7,))


def test_the_error_of_every_model_is_a_line_over_the_steps():
    picture = model_errors([ERRORS])
    assert picture is not None
    assert [s.name for s in picture.series] == ["model 0", "model 1", "model 2"]
    np.testing.assert_array_equal(picture.series[0].x, [1, 10, 100])
    np.testing.assert_array_equal(picture.series[1].y, [0.04, 0.1, 0.7])
    np.testing.assert_array_equal(picture.series[2].y, [np.nan, 0.1, np.nan])  # no error, and one that is not finite
    assert len({(s.style.colour, s.style.dash) for s in picture.series}) == 3
    said = "After 100 steps the models are wrong by 0.6 standard deviations of a state, after 1 step by 0.03."
    assert picture.says.startswith(said)
    assert picture.says.endswith("Left out: 1 model much worse than the others.")


def test_models_of_several_evaluation_seeds_may_differ_in_steps():
    other = ErrorsRecord((0.1,), (1, 2), ((0.3, 0.4),))
    picture = model_errors([ERRORS, other])
    assert picture is not None
    assert [s.name for s in picture.series][2:] == ["ensemble 0, model 2", "ensemble 1, model 0"]
    assert "After 100 steps the models are wrong by 0.6 " in picture.says
    assert "after 1 step by 0.12." in picture.says


@pytest.mark.parametrize(
    "damaged",
    [
        ErrorsRecord(), replace(ERRORS, steps=(1, 10)), replace(ERRORS, held_out_loss=(0.1,)),
        replace(ERRORS, steps=(0, 10, 100)), ErrorsRecord((None,), (1,), ((None,),)),
    ],
)  # fmt: skip
def test_errors_that_are_damaged_or_not_there_are_not_drawn(damaged):
    assert model_errors([damaged]) is None
    assert model_errors([]) is None


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([1, 2, 5, 20], (1, 2, 5, 10, 20)),
        ([0.03, 0.6], (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)),
        ([1.0], (0.5, 1.0, 2.0)),
        ([3.0, np.nan, -1.0, 0.0], (2.0, 5.0)),
        ([2e-5, 3.0], (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)),
        ([np.inf, 0.0], ()),
    ],
)
def test_ticks_of_a_logarithmic_axis_hold_the_values(values, ticks):
    assert log_ticks(np.array(values, float)) == ticks


def test_values_beyond_all_measure_leave_a_finite_axis():
    assert np.isfinite(log_ticks(np.array([1e-320, 1e308]))).all()


def test_an_algorithm_looks_the_same_in_every_report():
    assert styles(["bc"])["bc"] == styles(["ilbrl", "smodice", "bc"])["bc"]
    looks = styles(list(AGENTS))
    assert len({(s.marker, s.dash) for s in looks.values()}) == len(AGENTS)  # told apart without colour
    assert len({s.colour for s in looks.values()}) == len(AGENTS)
    assert {name: look.colour for name, look in looks.items()} == {name: a.colour for name, a in AGENTS.items()}


def test_algorithms_that_are_no_agents_are_drawn_too():
    assert display("ilbrl · run") == "ILBRL · run"
    looks = styles(["ilbrl · a", "ilbrl · b", "mine"])
    assert len({s.colour for s in looks.values()}) == 3


def lightness(colour: str) -> float:
    """CIE L* of #rrggbb."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return 116 * float(linear @ [0.2126, 0.7152, 0.0722]) ** (1 / 3) - 16


def test_colours_stand_out_from_light_and_dark_grounds():
    for style in (*STYLES, *styles(list(AGENTS)).values()):
        assert lightness(style.colour) < 65
        assert lightness(style.dark) > 60


X = np.arange(3.0)
ROW = Series("row", STYLES[0], X[:1], X[:1], "points", X[:1] - 1, X[:1] + 1)
KINDS = {
    "lines": Picture("lines", "title", "says", "x", "y", (Series("a", STYLES[1], X, X, "line", X - 1, X + 1),)),
    "rows": Picture("rows", "t", "s", "x", "", (ROW,), (Line("x", 1.0, "ref"),), sideways=True, y_names=("row",)),
    "bars": Picture("bars", "title", "says", "x", "y", (Series("b", STYLES[2], X, X, "bars"),), y_range=(0.0, 9.0)),
    "dots": Picture("dots", "title", "says", "x", "y", (ROW,), identity=True, x_names=("one",)),
    "log": Picture(
        "log", "t", "s", "x", "y", (Series("c", STYLES[3], X + 1, X + 1),), x_ticks=(1, 2, 5), y_ticks=(1, 10)
    ),
}
LEGENDS = {"lines": {"a"}, "rows": {"ref"}, "bars": {"b"}, "dots": {"row", "estimate = truth"}, "log": {"c"}}


@pytest.mark.parametrize("name", KINDS)
def test_a_figure_shows_what_its_picture_holds(name):
    picture = KINDS[name]
    (axes,) = paper.draw(picture).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == (picture.x, picture.y)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["row"] or not picture.y_names
    if picture.y_range is not None:
        assert axes.get_ylim() == picture.y_range
    if picture.x_ticks:
        assert (axes.get_xscale(), axes.get_xlim(), axes.get_ylim()) == ("log", (1, 5), (1, 10))
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "5"]
    legend: Any = axes.get_legend()
    assert {text.get_text() for text in legend.get_texts()} == LEGENDS[name]


def test_several_pictures_are_panels_with_one_legend():
    figure = paper.draw(*KINDS.values())
    assert [axes.axison for axes in figure.axes] == [True] * 5 + [False] * 3
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == set.union(*LEGENDS.values())


def test_figures_are_written_in_every_format_with_the_same_bytes(tmp_path):
    drawn = [("rows", KINDS["rows"])]
    first, second = (paper.save(drawn, tmp_path / folder) for folder in ("one", "two"))
    assert [path.name for path in first] == ["rows.png", "rows.svg", "rows.pdf"]
    for path, again in zip(first, second):
        assert path.read_bytes() == again.read_bytes()
    assert [path.read_bytes()[:4] for path in (first[0], first[2])] == [b"\x89PNG", b"%PDF"]


def test_a_file_that_is_no_figure_is_refused(tmp_path):
    with pytest.raises(IlbrlError, match=r"is no figure; name a file that ends in \.png, \.svg, \.pdf"):
        paper.save_as(tmp_path / "x.doc", estimates_against_truth([Point("a", 1.0, 2.0)]))
