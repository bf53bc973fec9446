"""Pictures as data, and their files."""

from typing import Any

import numpy as np
import pytest

from ilbrl.report import figures, pictures
from ilbrl.report.palette import STYLES, styles
from ilbrl.report.pictures.picture import Line, Picture, Series, band, frame
from ilbrl.results.folder import read_run
from ilbrl.results.tables import Curve

OF_RUN = {
    "rewards", "returns", "calibration", "value-curves", "candidate-values", "offline-values", "estimated-against-true",
    "regret", "training-actor_loss", "training-critic_loss", "training-mean_q", "ablation-offline",
}  # fmt: skip
OF_SCORES = {"iqm", "profile", "per-task", "improvement", "ablation-iqm", "ablation-profile"}


def of_scores(summary):
    return pictures.of_scores(summary.board, summary.aggregates, np.random.default_rng(0))


def test_every_picture_of_the_paper_and_more(summary):
    assert set(pictures.of_run(summary.runs[0])) == OF_RUN
    assert set(of_scores(summary)) == OF_SCORES


def test_interval_bars_show_the_statistics_and_the_line_of_the_logs(summary):
    picture = of_scores(summary)["iqm"]
    assert picture.y_names[-1] == "ILBRL"  # the first is drawn on top
    top = picture.series[0]
    assert top.low is not None
    assert top.high is not None
    found = summary.aggregates["ilbrl"]["iqm"]
    assert (top.x[0], top.low[0], top.high[0], top.y[0]) == (found.point, found.low, found.high, 4)
    assert Line("x", pytest.approx(59.2), "logs") in picture.lines


def test_profiles_fall_from_one_to_zero(summary):
    for series in of_scores(summary)["profile"].series:
        assert series.low is not None
        assert series.high is not None
        assert series.y[0] == 1.0
        assert series.y[-1] == 0.0
        assert (np.diff(series.y) <= 0).all()
        assert (series.low <= series.y + 1e-12).all()
        assert (series.y <= series.high + 1e-12).all()


def test_the_ablation_shows_the_two_and_no_other(summary):
    for name in ("ablation-iqm", "ablation-profile"):
        assert [s.name for s in of_scores(summary)[name].series] == ["ILBRL", "ILBRL, unweighted"]


def test_calibration_is_of_the_chosen_evaluator(summary):
    run = summary.runs[0]
    expert = next(s for s in pictures.of_run(run)["calibration"].series if s.name == "expert")
    chosen = run.tuning.configurations[4].policies["expert"]
    assert expert.high is not None
    assert (expert.x[0], expert.y[0]) == (chosen.truth, chosen.estimate)
    assert expert.high[0] - expert.y[0] == pytest.approx(1.96 * chosen.std_error, rel=1e-3)


def test_value_curves_compare_compositions_at_the_chosen_learning_rate(summary):
    picture = pictures.of_run(summary.runs[0])["value-curves"]
    assert {s.group for s in picture.series} == {"30% expert", "50% expert, chosen", "80% expert"}
    assert {line.label for line in picture.lines} == {"expert, true", "medium, true"}


def test_what_was_selected_is_drawn_strong(summary):
    run = summary.runs[0]
    strong = {s.name for s in pictures.of_run(run)["training-mean_q"].series if s.emphasis}
    chosen = {(c.algorithm, c.configuration) for c in run.candidates if c.selected}
    assert len(strong) == len(chosen) == 5


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


def test_a_folder_without_the_data_gives_fewer_pictures(make_run):
    folder = make_run(played=False, algorithms=("bc",))
    (folder / "tuning.json").unlink()
    (folder / "curves.csv").unlink()
    (folder / "data.json").unlink()
    assert set(pictures.of_run(read_run(folder))) == {"candidate-values", "offline-values"}


def test_curves_of_algorithms_that_the_results_lack_are_drawn(make_run):
    folder = make_run(algorithms=("bc", "ilbrl-unweighted"), configurations=1, seeds=1)
    lines = (folder / "results.csv").read_text().splitlines()
    (folder / "results.csv").write_text("\n".join([*lines[:3], lines[3][:40]]))
    drawn = pictures.of_run(read_run(folder))
    for name in ("training-mean_q", "candidate-values"):
        assert [s.name for s in drawn[name].series] == ["BC 0", "ILBRL, unweighted 0"]


def test_an_algorithm_looks_the_same_in_every_report():
    assert styles(["bc"])["bc"] == styles(["ilbrl", "smodice", "bc"])["bc"]
    looks = styles(["ilbrl", "ilbrl-unweighted", "bc", "smodice", "oril"])
    assert len({(s.marker, s.dash) for s in looks.values()}) == 5  # told apart without colour
    assert len({s.colour for s in looks.values()}) == 5


def lightness(colour: str) -> float:
    """CIE L* of #rrggbb."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return 116 * float(linear @ [0.2126, 0.7152, 0.0722]) ** (1 / 3) - 16


def test_colours_stand_out_from_light_and_dark_grounds():
    assert all(lightness(style.colour) < 65 for style in STYLES)
    assert all(lightness(style.dark) > 60 for style in STYLES)


X = np.arange(3.0)
ROW = Series("row", STYLES[0], X[:1], X[:1], "points", X[:1] - 1, X[:1] + 1)
KINDS = {
    "lines": Picture("lines", "title", "says", "x", "y", (Series("a", STYLES[1], X, X, "line", X - 1, X + 1),)),
    "rows": Picture("rows", "t", "s", "x", "", (ROW,), (Line("x", 1.0, "ref"),), sideways=True, y_names=("row",)),
    "bars": Picture("bars", "title", "says", "x", "y", (Series("b", STYLES[2], X, X, "bars"),), y_range=(0.0, 9.0)),
    "dots": Picture("dots", "title", "says", "x", "y", (ROW,), identity=True, x_names=("one",)),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_figure_shows_what_its_picture_holds(name):
    picture = KINDS[name]
    (axes,) = figures.draw(picture).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == (picture.x, picture.y)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["row"] or not picture.y_names
    if picture.y_range is not None:
        assert axes.get_ylim() == picture.y_range
    legend: Any = axes.get_legend()
    shown = {text.get_text() for text in legend.get_texts()}
    assert shown == {"lines": {"a"}, "rows": {"ref"}, "bars": {"b"}, "dots": {"row", "estimate = truth"}}[name]


def test_figures_are_written_in_every_format_with_the_same_bytes(tmp_path):
    drawn = [("rows", KINDS["rows"])]
    first, second = (figures.save(drawn, tmp_path / folder) for folder in ("one", "two"))
    assert [path.name for path in first] == ["rows.png", "rows.svg", "rows.pdf"]
    for path, again in zip(first, second):
        assert path.read_bytes() == again.read_bytes()
    assert [path.read_bytes()[:4] for path in (first[0], first[2])] == [b"\x89PNG", b"%PDF"]
