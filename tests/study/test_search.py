"""Random search: the paper's ranges to the digit, and draws that depend on nothing they should not."""

from dataclasses import replace

import pytest

from ilbrl.agents import AGENTS
from ilbrl.base.errors import IlbrlError
from ilbrl.study.search import draw, grouped, ranges_of
from ilbrl.study.study import Search


def settings(search, algorithm, seed=0):
    return [c.hyperparameters for c in draw(search, algorithm, seed)]


def test_the_papers_ranges():
    paper = Search(preset="paper")
    rate, weight = ("uniform", (1e-5, 1e-4)), ("uniform", (1.0, 4.0))
    assert ranges_of(paper, "ilbrl") == {"lam": weight, "actor_lr": rate, "critic_lr": rate}
    assert ranges_of(paper, "ilbrl-unweighted") == ranges_of(paper, "ilbrl")
    assert ranges_of(paper, "bc") == {"lr": ("loguniform", (3e-4, 3e-2))}
    discriminator = {"reward_scale": ("uniform", (0.05, 3.0)), "discriminator_lr": ("uniform", (1e-4, 1e-3))}
    for name in ("smodice", "oril"):
        assert ranges_of(paper, name) == {**discriminator, "actor_lr": rate}
    assert draw(paper, "ilbrl", 0)[0].config.reward_bounds is None
    assert draw(paper, "oril", 0)[0].config.critic_lr == 3e-4


def test_where_our_ranges_differ():
    ours = Search()
    assert ranges_of(ours, "smodice")["reward_scale"] == ("loguniform", (0.05, 3.0))
    ilbrl, oril = ranges_of(ours, "ilbrl"), ranges_of(ours, "oril")
    shared = oril.keys() & ilbrl.keys()
    assert {name: oril[name] for name in shared} == {name: ilbrl[name] for name in shared}
    assert (oril.keys() ^ ilbrl.keys()) == {"discriminator_lr", "agreement"}
    assert draw(ours, "oril", 0)[0].config.layer_norm == draw(ours, "ilbrl", 0)[0].config.layer_norm
    assert ilbrl["lam"] == ("loguniform", (0.1, 5.0))
    assert ranges_of(ours, "bc")["lr"] == ("loguniform", (3e-5, 3e-3))
    assert draw(ours, "ilbrl", 0)[0].config.reward_bounds == (0.0, 1.0)
    assert all(5 <= c.config.expert_odds <= 100 and c.config.normalise_weights for c in draw(ours, "ilbrl", 0))
    assert {c.config.hidden for c in draw(ours, "ilbrl", 0)} == {(256, 256), (256, 256, 256)}
    for name in ("ilbrl", "oril", "smodice"):
        paper = draw(Search(preset="paper"), name, 0)[0].config
        assert (paper.expert_share, paper.expert_odds) == (0, 1)
        assert not getattr(paper, "normalise_weights", False)


@pytest.mark.parametrize("algorithm", ["ilbrl", "ilbrl-unweighted", "oril"])
def test_discrete_actions_have_ranges_of_their_own(algorithm):
    """A share wins over odds, so drawn odds would change nothing."""
    search, base = Search(configurations=20, default_first=True), AGENTS[algorithm].presets["discrete"]
    default, *drawn = draw(search, algorithm, 0, discrete=True)
    assert default.config == base
    assert "expert_odds" not in ranges_of(search, algorithm, discrete=True)
    assert all(0.3 <= c.config.expert_share <= 0.9 and c.config.expert_odds == 1 for c in drawn)
    assert len({c.config.expert_share for c in drawn}) == 19
    assert all(c.config.expert_share == 0 for c in draw(search, algorithm, 0))
    paper = replace(search, preset="paper")
    assert draw(paper, algorithm, 0, discrete=True) == draw(paper, algorithm, 0)


def test_agents_without_such_ranges_have_the_usual_ones():
    for algorithm in ("bc", "smodice", "td3bc"):
        assert draw(Search(), algorithm, 0, discrete=True) == draw(Search(), algorithm, 0)


@pytest.mark.parametrize("discrete", [False, True])
def test_a_study_that_states_odds_or_a_share_gets_them(discrete):
    odds = draw(Search(ranges={"all.expert_odds": "loguniform(2, 4)"}), "ilbrl", 0, discrete)
    assert all(c.config.expert_share == 0 and 2 <= c.config.expert_odds <= 4 for c in odds)
    share = draw(Search(ranges={"ilbrl.expert_share": "0.3"}), "ilbrl", 0, discrete)
    assert all(c.config.expert_share == 0.3 and "expert_odds" not in c.hyperparameters for c in share)


def test_draws_lie_in_their_ranges_and_differ():
    drawn = settings(Search(configurations=50), "ilbrl")
    assert all(0.1 <= d["lam"] <= 5 and 1e-4 <= d["actor_lr"] <= 1e-3 for d in drawn)
    assert len({d["lam"] for d in drawn}) == 50
    assert sum(d["lam"] < 0.5**0.5 for d in drawn) in range(15, 36)  # half of a log-uniform lies below √(0.1 · 5)
    assert all(d["actor_lr"] != d["critic_lr"] for d in drawn)


def test_draws_depend_on_seed_algorithm_name_and_number_alone():
    few, many = Search(configurations=3), Search(("smodice", "bc", "ilbrl"), configurations=5)
    assert settings(few, "ilbrl") == settings(many, "ilbrl")[:3]
    assert settings(few, "ilbrl") != settings(few, "ilbrl", seed=1)
    weighted, ablated = settings(few, "ilbrl"), settings(few, "ilbrl-unweighted")
    assert [{**d, "agreement": w["agreement"]} for d, w in zip(ablated, weighted)] == weighted  # on purpose; no weights
    for theirs, ours in zip(settings(few, "td3bc"), settings(few, "ilbrl")):
        assert theirs["actor_lr"] != ours["actor_lr"]
    other = Search(configurations=3, ranges={"ilbrl.lam": "uniform(1, 2)"})
    for before, after in zip(settings(few, "ilbrl"), settings(other, "ilbrl")):
        assert before["actor_lr"] == after["actor_lr"]
        assert before["lam"] != after["lam"]


def test_draws_are_these_for_ever():
    """Digits written down once: a library that changes them would silently change every study."""
    first = settings(Search(configurations=1, preset="paper"), "ilbrl")[0]
    assert first == {name: pytest.approx(value, rel=1e-12) for name, value in DRAWN.items()}


DRAWN = {"lam": 2.8013265845369197, "actor_lr": 2.229367614344509e-05, "critic_lr": 4.8369937760277604e-05}


def test_even_draws_have_one_in_each_eighth_of_a_range():
    search = Search(configurations=16, even=True, ranges={"ilbrl.lam": "uniform(0, 8)"})
    drawn = settings(search, "ilbrl")
    for block in (drawn[:8], drawn[8:]):
        assert sorted(int(d["lam"]) for d in block) == list(range(8))
        assert sorted(len(d["hidden"]) for d in block) == [2] * 4 + [3] * 4
    assert drawn[:3] == settings(replace(search, configurations=3), "ilbrl")
    names = ("lam", "expert_odds", "actor_lr", "critic_lr")
    orders = [sorted(range(8), key=lambda n, name=name: drawn[n][name]) for name in names]
    assert len(set(map(tuple, orders))) == 4


def test_the_default_may_come_first():
    search = Search(configurations=3, default_first=True, ranges={"all.dtype": "bfloat16"})
    default, *drawn = draw(search, "ilbrl", 0)
    assert default.config == replace(AGENTS["ilbrl"].presets["default"], dtype="bfloat16")
    assert default.hyperparameters["lam"] == default.config.lam
    others = draw(replace(search, default_first=False), "ilbrl", 0)[:2]
    assert [(c.number, c.config) for c in drawn] == [(c.number + 1, c.config) for c in others]


def test_an_algorithm_may_have_a_number_of_its_own():
    search = Search(("ilbrl", "bc"), configurations=3, configurations_of={"bc": 2})
    assert [len(draw(search, name, 0)) for name in search.algorithms] == [3, 2]


def test_all_sets_what_exists_and_an_algorithms_own_wins():
    search = Search(ranges={"all.hidden": "[8]", "all.lam": "0.5", "ilbrl.lam": "0.7"})
    assert draw(search, "bc", 0)[0].config.hidden == (8,)
    assert draw(search, "ilbrl-unweighted", 0)[0].config.lam == 0.5
    assert draw(search, "ilbrl", 0)[0].config.lam == 0.7


def test_groups_share_a_program_and_keep_the_limit():
    search = Search(configurations=8, ranges={"smodice.divergence": "choice(kl, chi2)"})
    drawn = draw(search, "smodice", 0)
    groups = grouped(drawn, members_per_configuration=3, limit=7)
    assert sorted(c.number for group in groups for c in group) == list(range(8))
    assert all(len({c.config.divergence for c in group}) == 1 and len(group) <= 2 for group in groups)
    assert len(grouped(drawn, members_per_configuration=100, limit=7)) == 8


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (Search(("gail",)), "no algorithm 'gail'"),
        (Search(ranges={"ilbrl.lamda": "1"}), "search.ranges.ilbrl.lamda"),
        (Search(ranges={"gail.lr": "1"}), "no algorithm 'gail'"),
        (Search(configurations_of={"gail": 2}), "configurations_of: no algorithm 'gail'"),
        (Search(ranges={"all.lamda": "1"}), "search.ranges.all.lamda"),
    ],
)
def test_refusals(search, said):
    with pytest.raises(IlbrlError, match=said):
        draw(search, search.algorithms[0], 0)
