"""Agents as values: parts that combine, rewards and weights of the user's own, labels that are computed once."""

from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from ilbrl.agents import AGENTS, bc, td3bc
from ilbrl.agents.agent import Agent, prepare
from ilbrl.agents.fit import fit
from ilbrl.agents.weights import BY_REWARD, Weighing, best_ahead
from ilbrl.base.errors import IlbrlError
from ilbrl.data import Dataset, concatenate
from ilbrl.learning import nets
from ilbrl.learning.spec import Spec
from ilbrl.rewards import Labelling, Labels, Logits, discriminator, soft_support

SMALL = {"hidden": (8,), "batch_size": 16}


def logs(rows: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    ends = np.arange(1, rows + 1) % 10 == 0
    return Dataset(
        rng.standard_normal((rows, 3)), rng.uniform(-2, 2, (rows, 2)), rng.standard_normal((rows, 3)),
        np.zeros(rows, bool), ends, action_low=[-2.0, -2.0], action_high=[2.0, 2.0], source=f"logs-{seed}",
    )  # fmt: skip


EXPERT, OTHERS = logs(40, 0), logs(100, 1)
UNION = concatenate([EXPERT, OTHERS])
LABELS = soft_support.label(EXPERT, OTHERS, soft_support.standard_features(Spec.of(UNION)), quiet=True)


def weights_of(learned) -> list[np.ndarray]:
    return [array for policy in learned.policies for layer in policy.layers for array in layer]


def train(agent, cfg, **options):
    return fit(agent, EXPERT, OTHERS, config=replace(cfg, **SMALL), updates=20, quiet=True, **options)


def assert_same(one, other):
    for left, right in zip(weights_of(one), weights_of(other), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_reward_and_a_weight_of_ones_own_take_the_agents_place():
    """The oracle, which these logs without rewards could not have, becomes ILBRL when it is given ILBRL's labels."""
    cfg = AGENTS["td3bc"].presets["default"]
    theirs = train("ilbrl", AGENTS["ilbrl"].Config(lam=cfg.lam))
    assert_same(theirs, train("td3bc", cfg, reward=LABELS.reward, weight=LABELS.reward))
    by_function = train("td3bc", cfg, reward=lambda data: LABELS.reward[: len(data)], weight=lambda data: LABELS.reward)
    assert_same(theirs, by_function)
    unweighted = train("td3bc", cfg, reward=LABELS.reward)
    assert_same(unweighted, train("ilbrl-unweighted", AGENTS["ilbrl"].Config(lam=cfg.lam)))
    assert not np.array_equal(weights_of(unweighted)[0], weights_of(theirs)[0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reward": np.zeros(3)}, r"reward: must be one number per row, the expert's rows first: \[140\], got \(3,\)"),
        ({"reward": np.full(140, np.nan)}, "reward: row 0 is NaN"),
        ({"weight": np.full(140, -1.0)}, "weights must not be negative, the lowest is -1"),
        ({"reward": np.full(140, 3.0)}, "ilbrl: reward_bounds are 0 to 1, but rewards lie between 3 and 3"),
    ],
)
def test_rewards_and_weights_that_cannot_be_are_refused(given, said):
    with pytest.raises(IlbrlError, match=said):
        train("ilbrl", AGENTS["ilbrl"].presets["default"], **given)


def test_other_rewards_do_not_continue_a_checkpoint(tmp_path):
    cfg = AGENTS["ilbrl"].presets["default"]
    train("ilbrl", cfg, reward=np.zeros(140), out=tmp_path)
    with pytest.raises(IlbrlError, match=r"other settings or data \(other rewards\)"):
        train("ilbrl", cfg, reward=np.ones(140), out=tmp_path)


def test_labels_that_are_known_are_not_computed_again(monkeypatch):
    agent, cfg = AGENTS["ilbrl"], AGENTS["ilbrl"].presets["default"]
    fresh = prepare(agent, EXPERT, OTHERS, [cfg], [0], quiet=True)
    monkeypatch.setattr(soft_support, "nearest_of_blocks", lambda *_: pytest.fail("searched again"))
    reused = prepare(agent, EXPERT, OTHERS, [cfg], [0], labels=LABELS, quiet=True)
    for name, column in fresh.feed.shared.items():
        np.testing.assert_array_equal(column, reused.feed.shared[name])
    exponential = prepare(agent, EXPERT, OTHERS, [replace(cfg, reward_shape="exponential")], [0], labels=LABELS)
    np.testing.assert_allclose(exponential.feed.shared["rewards"], np.exp(-0.5 * LABELS.distance / 2), rtol=1e-6)
    with pytest.raises(IlbrlError, match="labels given are of 140 rows, 40 of them the expert's; these logs have 80"):
        prepare(agent, EXPERT, EXPERT, [cfg], [0], labels=LABELS)


def test_rewards_on_transitions_compare_successors_too():
    cfg = replace(AGENTS["ilbrl"].presets["default"], reward_on="transition")
    found = prepare(AGENTS["ilbrl"], EXPERT, OTHERS, [cfg], [0], labels=LABELS, quiet=True).labels
    spec = Spec.of(UNION)
    assert isinstance(found, Labels)
    step = soft_support.standard_features(spec)
    features = [np.hstack([step(d), spec.standardise(d.next_observations)]).astype(float) for d in (EXPERT, OTHERS)]
    brute = np.linalg.norm(features[1][:, None] - features[0][None], axis=-1).min(1)
    np.testing.assert_allclose(found.distance[40:], brute, rtol=1e-6)


def test_discriminator_rewards_by_hand(monkeypatch):
    """Equal discriminators are shared, and scaled for each member."""
    judged = discriminator.Logits(np.array([[-2.0, 0.0], [1.0, 2.0]], np.float32), [0, 1, 0], 1)
    monkeypatch.setattr(discriminator, "label", lambda *_: judged)
    configs = [replace(AGENTS["oril"].presets["paper"], reward_scale=k) for k in (0.25, 1.0, 0.25)]
    made = discriminator.REWARD.label(Labelling(EXPERT, OTHERS, Spec.of(UNION), configs, [0, 1, 0]))
    np.testing.assert_allclose(made.rewards, [[-0.5, 0], [1, 2]])
    assert list(made.set_of or ()) == [0, 1, 0]
    chances = [replace(cfg, reward="probability") for cfg in configs]
    made = discriminator.REWARD.label(Labelling(EXPERT, OTHERS, Spec.of(UNION), chances, [0, 1, 0]))
    np.testing.assert_allclose(made.rewards[0], 0.25 / (1 + np.exp([2.0, 0.0])), rtol=1e-6)


def test_a_discriminator_never_learns_longer_than_its_agent():
    cfg = replace(AGENTS["oril"].presets["default"], **SMALL)  # 1,000 passes over 40 rows: 157 updates
    short, long = (fit("oril", EXPERT, OTHERS, config=cfg, updates=n, quiet=True).labels for n in (4, 200))
    brief = prepare(AGENTS["oril"], EXPERT, OTHERS, [cfg], [0], updates=4, quiet=True)
    assert brief.identity == {"discriminator_updates": 4}
    assert isinstance(short, Logits)
    assert isinstance(long, Logits)
    assert isinstance(brief.labels, Logits)
    np.testing.assert_array_equal(short.logit, brief.labels.logit)
    assert np.abs(long.logit).max() > np.abs(short.logit).max()
    assert discriminator.updates(discriminator.Config(), 40) == 157


def test_labels_survive_a_file(tmp_path):
    LABELS.save(tmp_path / "labels.npz")
    found = Labels.load(tmp_path / "labels.npz")
    for name in ("reward", "distance", "nearest"):
        np.testing.assert_array_equal(getattr(found, name), getattr(LABELS, name))
    assert (found.d_max, found.expert_rows, found.compared) == (LABELS.d_max, 40, "step")
    for change, said in (
        ({"reward": LABELS.reward[:7]}, "do not fit together"),
        ({"reward": np.where(np.arange(140) == 3, np.nan, LABELS.reward)}, "reward: not all between 0 and 1"),
        ({"distance": -LABELS.distance}, "distance: not all at least 0"),
        ({"nearest": LABELS.nearest + 40}, "nearest: not the numbers of expert rows"),
        ({"expert_rows": 10**6}, "do not fit together"),
    ):
        replace(LABELS, **change).save(tmp_path / "labels.npz")
        with pytest.raises(IlbrlError, match=rf"labels\.npz: not a file of labels \(.*{said}"):
            Labels.load(tmp_path / "labels.npz")
    (tmp_path / "labels.npz").write_bytes(b"PK nonsense")
    with pytest.raises(IlbrlError, match="not a file of labels"):
        Labels.load(tmp_path / "labels.npz")


def test_the_best_reward_ahead_stays_within_an_episode():
    data = logs(20, 2)  # two episodes of ten
    rewards = np.zeros(20)
    rewards[[5, 10, 19]] = [0.5, 1.0, 0.7]
    best = best_ahead(data, rewards, 3)
    brute = [max(rewards[i : min(i + 4, (i // 10 + 1) * 10)]) for i in range(20)]
    np.testing.assert_array_equal(best, brute)
    assert best[9] == 0  # the next row is another episode's
    np.testing.assert_array_equal(best_ahead(data, rewards, 0), rewards)
    np.testing.assert_array_equal(best_ahead(data, rewards, 500)[10:], [1.0] + [0.7] * 9)


def test_a_row_counts_less_whose_action_is_to_blame_for_its_distance():
    """w = r · (d(s) / d(s, a))^p, against brute force in float64; what is known is not searched again."""
    rows, spec = UNION, Spec.of(UNION)
    states, actions = spec.standardise(rows.observations).astype(float), spec.encode_actions(rows.actions).astype(float)
    of_state = np.linalg.norm(states[:, None] - states[None, :40], axis=-1)
    of_step = np.hypot(of_state, np.linalg.norm(actions[:, None] - actions[None, :40], axis=-1))
    d_state, d_step = of_state.min(1), of_step.min(1)
    share = np.where(d_step == 0, 1, d_state / np.where(d_step == 0, 1, d_step))
    assert (share[:40] == 1).all()
    assert share[40:].max() < 1
    configs = [AGENTS["ilbrl"].Config(agreement=p) for p in (0.0, 2.0)]
    rewards = np.stack([LABELS.reward, LABELS.reward])
    for labels in (LABELS, replace(LABELS, compared="transition"), None):
        found = BY_REWARD.weigh(Weighing(EXPERT, OTHERS, rows, spec, rewards, configs, labels))
        assert found.dtype == rewards.dtype
        np.testing.assert_array_equal(found[0], LABELS.reward)
        np.testing.assert_allclose(found[1], LABELS.reward * share**2, rtol=1e-5)


def test_an_expert_that_chose_otherwise_in_the_same_state_leaves_nothing_to_clone():
    """Discrete actions: 0 where the expert has been in this very state, or where it never takes the action."""
    states = np.array([[0.0], [1.0], [0.0], [0.5], [0.0], [4.0]], np.float32)
    never = np.zeros(6, bool)
    data = Dataset(states, np.array([0, 0, 1, 1, 0, 2]), states, never, never, action_names=("a", "b", "c"))
    expert, others = data.transitions(0, 3), data.transitions(3, 6)
    cfg = AGENTS["ilbrl"].Config(agreement=1.0)
    made = prepare(AGENTS["ilbrl"], expert, others, [cfg], [0], quiet=True).feed.shared
    np.testing.assert_allclose(made["weights"][:3], made["rewards"][:3])
    np.testing.assert_allclose(made["weights"][3], made["rewards"][3], rtol=1e-6)  # both neighbours are as far
    assert made["weights"][4] == 1  # the expert's own step
    assert made["weights"][5] == 0


def test_members_that_weigh_otherwise_read_columns_of_their_own():
    cfg = replace(AGENTS["ilbrl"].presets["default"], **SMALL)
    configs = [replace(cfg, agreement=p) for p in (0.0, 2.0, 0.0)]
    feed = prepare(AGENTS["ilbrl"], EXPERT, OTHERS, configs, [0, 0, 1], quiet=True).feed
    assert (list(feed.own_of or ()), feed.own["weights"].shape, feed.own["rewards"].shape) == (
        [0, 1, 0],
        *[(2, 140)] * 2,
    )
    together = fit("ilbrl", EXPERT, OTHERS, config=configs[:2], updates=20, quiet=True)
    for one, policy in zip(configs, together.policies):
        alone = fit("ilbrl", EXPERT, OTHERS, config=one, updates=20, quiet=True)
        np.testing.assert_allclose(policy.layers[0][0], alone.policies[0].layers[0][0], atol=1e-4)
    assert not np.allclose(*(policy.layers[0][0] for policy in together.policies), atol=1e-6)


def test_rewards_and_weights_that_differ_are_crossed():
    """Two ways to reward and two to weigh: each of five members reads the columns of its own pair."""
    rng, never = np.random.default_rng(0), np.zeros(30, bool)
    states, actions = rng.normal(size=(30, 2)).astype(np.float32), rng.integers(3, size=30)
    data = Dataset(states, actions, states, never, never, action_names=("a", "b", "c"))
    expert, others = data.transitions(0, 15), data.transitions(15, 30)
    pairs = [(1.0, 0.0), (0.2, 2.0), (1.0, 2.0), (0.2, 0.0), (1.0, 0.0)]
    configs = [AGENTS["ilbrl"].Config(action_distance=distance, agreement=p) for distance, p in pairs]
    feed = prepare(AGENTS["ilbrl"], expert, others, configs, [0] * 5, quiet=True).feed
    assert list(feed.own_of or ()) == [0, 1, 2, 3, 0]
    for one, number in zip(configs, feed.own_of or ()):
        alone = prepare(AGENTS["ilbrl"], expert, others, [one], [0], quiet=True).feed.shared
        for column in ("rewards", "weights"):
            np.testing.assert_allclose(feed.own[column][number], alone[column], rtol=1e-6)
    assert not np.allclose(feed.own["rewards"][0], feed.own["rewards"][1])
    assert not np.allclose(feed.own["weights"][0], feed.own["weights"][2])


def test_members_of_one_population_have_their_own_shares():
    cfg = replace(AGENTS["ilbrl"].presets["default"], **SMALL)
    shares = [replace(cfg, expert_share=share) for share in (0.0, 0.5)]
    together = fit("ilbrl", EXPERT, OTHERS, config=shares, updates=20, quiet=True)
    assert not np.allclose(*(policy.layers[0][0] for policy in together.policies), atol=1e-6)
    for one, share in enumerate(shares):
        alone = fit("ilbrl", EXPERT, OTHERS, config=share, updates=20, quiet=True)
        np.testing.assert_allclose(together.policies[one].layers[0][0], alone.policies[0].layers[0][0], atol=1e-4)


def documented_agent() -> Agent:
    """The example of CONTRIBUTING.md, made of parts that no agent of the registry combines."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    code = text.split("## A new agent")[1].split("```python\n")[1].split("```")[0]
    names: dict = {"__name__": "documented"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    return names["AGENT"]


INVENTED = documented_agent()


def test_parts_combine_without_a_file_for_the_pair():
    learned = train(INVENTED, INVENTED.presets["default"])
    assert learned.agent == "weighted-bc"
    alike = train(INVENTED, INVENTED.presets["default"], weight=np.ones(140))
    assert not np.array_equal(weights_of(learned)[0], weights_of(alike)[0])


def test_a_config_that_lacks_a_parts_settings_is_a_mistake_of_the_author():
    with pytest.raises(TypeError, match=r"its Config must inherit .*SupportReward"):
        replace(INVENTED, Config=bc.Config)
    with pytest.raises(TypeError, match=r"its Config must inherit .*Shares"):
        replace(AGENTS["td3bc"], Config=td3bc.Config)


def test_a_policy_carries_layer_norm_and_refuses_what_it_cannot_carry():
    cfg = replace(AGENTS["ilbrl"].presets["default"], actor_layer_norm=True, hidden=(8, 8, 8))
    learned = fit("ilbrl", EXPERT, OTHERS, config=replace(cfg, batch_size=16), updates=20, quiet=True)
    layers, spec = td3bc.actor_layers(learned.fitted.member(0)), Spec.of(UNION)
    assert len(layers) == 4
    trained = 2 * nets.actor(layers, jnp.asarray(spec.standardise(OTHERS.observations)))
    np.testing.assert_allclose(learned.policies[0].act(OTHERS.observations), trained, atol=1e-5)
    assert np.abs(layers[0]["shift"]).max() > 0  # it has learned something that could be lost

    odd = ({"w": np.ones((3, 2)), "b": np.zeros(2), "gain": np.ones(2)},)
    strange = replace(INVENTED, solver=bc.SOLVER._replace(actor_layers=lambda state: odd))
    with pytest.raises(IlbrlError, match="layers hold gain, which a policy file cannot carry"):
        train(strange, INVENTED.presets["default"])
