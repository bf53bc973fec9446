import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import norm

from ilbrl.base.errors import IlbrlError
from ilbrl.learning import nets
from ilbrl.policy import Layer, Policy

# --- acting ---


@pytest.mark.parametrize("layer_norm", [False, True])
def test_acts_like_the_training_side_actor(layer_norm):
    layers = nets.init_mlp(jax.random.key(0), [5, 64, 64, 3], layer_norm)
    if layer_norm:  # as after training: neither ones nor zeros
        noise = np.random.default_rng(1).uniform(0.5, 1.5, (2, 2, 64)).astype(np.float32)
        normed = ({**layer, "scale": s, "shift": t - 1} for layer, (s, t) in zip(layers, noise))
        layers = (*normed, layers[-1])
    mean, std = np.arange(5.0, dtype=np.float32), np.arange(1.0, 6.0, dtype=np.float32)
    policy = Policy(
        tuple(Layer(layer["w"], layer["b"], layer.get("scale"), layer.get("shift")) for layer in layers),
        -2 * np.ones(3, np.float32), 2 * np.ones(3, np.float32), obs_mean=mean, obs_std=std,
    )  # fmt: skip
    observations = np.random.default_rng(0).normal(size=(100, 5)).astype(np.float32)
    trained = 2 * nets.actor(layers, jnp.asarray((observations - mean) / std))
    np.testing.assert_allclose(policy.act(observations), trained, atol=2e-6)
    np.testing.assert_allclose(policy.act(observations[7]), policy.act(observations)[7], atol=2e-6)


def test_samples_have_the_stated_density():
    """Mean of −log π under samples equals the entropy of the squashed Gaussian, by quadrature in one dimension."""
    policy = Policy(
        ((np.zeros((1, 2), np.float32), np.array([0.3, -0.5], np.float32)),), -np.ones(1), np.ones(1), "tanh_gaussian"
    )
    actions = policy.act(np.zeros((200_000, 1)), np.random.default_rng(0))
    mean, std = 0.3, np.exp(-0.5)
    grid = np.linspace(-0.9999, 0.9999, 20001)
    density = norm.pdf(np.arctanh(grid), mean, std) / (1 - grid**2)
    np.testing.assert_allclose(
        policy.log_prob(np.zeros((1, 1)), np.array([[0.5]]))[0], np.log(np.interp(0.5, grid, density)), atol=1e-5
    )
    entropy = -np.trapezoid(density * np.log(density), grid)
    np.testing.assert_allclose(-policy.log_prob(np.zeros((200_000, 1)), actions).mean(), entropy, atol=0.01)


def test_actions_stay_within_bounds(make_policy):
    actions = make_policy("tanh_gaussian").act(100 * np.ones((50, 5)), np.random.default_rng(1))
    assert (actions >= [-1, -2, 0]).all()
    assert (actions <= [1, 4, 0.5]).all()


def test_a_categorical_policy_chooses_by_the_softmax_of_its_logits():
    logits = np.array([0.5, -1.0, 2.0], np.float32)
    policy = Policy(((np.zeros((2, 3)), logits),), [0], [2], head="categorical")
    assert policy.num_actions == 3
    expected = np.exp(log_softmax(logits))
    np.testing.assert_allclose(policy.probabilities(np.zeros(2)), expected, atol=1e-7)
    assert policy.act(np.zeros(2)) == 2
    assert policy.act(np.zeros((4, 2))).tolist() == [2, 2, 2, 2]
    drawn = policy.act(np.zeros((30_000, 2)), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(drawn) / 30_000, expected, atol=0.01)
    np.testing.assert_allclose(policy.log_prob(np.zeros((3, 2)), np.arange(3)), log_softmax(logits), atol=1e-6)


def test_use_from_other_peoples_code(make_policy):
    policy, observation = make_policy("tanh_gaussian"), np.ones(5)
    np.testing.assert_array_equal(policy(observation), policy.act(observation))
    action, state = policy.predict(observation)
    np.testing.assert_array_equal(action, policy.act(observation))
    assert state is None
    sampled, _ = policy.predict(observation, state=None, episode_start=np.array([True]), deterministic=False)
    assert not np.array_equal(sampled, action)
    fixed = make_policy("deterministic")
    np.testing.assert_array_equal(fixed.predict(observation, deterministic=False)[0], fixed.act(observation))


def test_a_policy_prints_in_one_line(make_policy):
    assert str(make_policy(layer_norm=True, metadata={"agent": "ilbrl", "task": "hopper"})) == (
        "Policy(5 → 16 → 12 → 3 numbers, relu, LayerNorm, deterministic, agent ilbrl, task hopper)"
    )
    for task in ("two\nlines", None):  # None: a study without an environment
        assert "task" not in str(make_policy(metadata={"task": task}))
    assert repr(make_policy("categorical", hidden=())) == "Policy(5 → 4 actions, relu, categorical)"


# --- what is refused ---


@pytest.mark.parametrize(
    ("observations", "said"),
    [
        (np.zeros(3), "observations of 5 numbers, got 3"),
        (np.float32(1), "observations of 5 numbers, got a single one"),
        (np.array([0, 0, np.nan, 0, 0]), "number 2 of the observation is nan"),
        (np.diag([0, 0, 0, np.inf, 0]), "observation 3, number 3 is inf"),
        (np.full(5, 1e300), "number 0 of the observation is inf"),
        (np.full(5, 3e38), "no finite answer"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")
@pytest.mark.parametrize("head", ["deterministic", "categorical"])
def test_observations_without_an_answer(make_policy, observations, said, head):
    with pytest.raises(IlbrlError, match=said):
        make_policy(head).act(observations)


BROKEN = {
    "no layers": ({"layers": ()}, "at least one layer"),
    "layers that do not meet": (
        {"layers": ((np.zeros((5, 4)), np.zeros(4)), (np.zeros((3, 3)), np.zeros(3)))},
        "layer 0 gives 4 numbers and layer 1 takes 3",
    ),
    "a bias of another size": ({"layers": ((np.zeros((5, 3)), np.zeros(2)),)}, r"layer 0: a weight of shape \(5, 3\)"),
    "a flat weight": ({"layers": ((np.zeros(3), np.zeros(3)),)}, "layer 0"),
    "too few outputs": ({"layers": ((np.zeros((5, 2)), np.zeros(2)),)}, "gives 2 numbers, and a deterministic policy"),
    "half a LayerNorm": ({"layers": ((np.zeros((5, 3)), np.zeros(3), np.ones(3), None),)}, "a scale and a shift"),
    "LayerNorm at the end": ({"layers": ((np.zeros((5, 3)), np.zeros(3), np.ones(3), np.ones(3)),)}, "last layer"),
    "an unknown head": ({"head": "gaussian"}, "head 'gaussian' is not known: there are deterministic"),
    "an unknown activation": ({"activation": "gelu"}, "activation 'gelu' is not known"),
    "swapped bounds": ({"action_low": [1.0, 1, 1], "action_high": [-1.0, 1, 1]}, r"action_low\[0\] is 1.0, above"),
    "endless bounds": ({"action_low": [-3e38] * 3, "action_high": [3e38] * 3}, "too large"),
    "bounds far out": ({"action_low": [2e38] * 3, "action_high": [3e38] * 3}, "too large"),
    "bounds of two sizes": ({"action_low": [0.0, 0.0]}, r"the shapes \(2,\) and \(3,\)"),
    "half a normaliser": ({"obs_std": None}, "there is obs_mean but no obs_std"),
    "a zero in the normaliser": ({"obs_std": [1, 1, 0, 1, 1]}, r"obs_std\[2\] is not above zero"),
    "a normaliser of another size": ({"obs_mean": [1.0], "obs_std": [1.0]}, r"expected \(5,\)"),
    "NaN in the normaliser": ({"obs_mean": [0, np.nan, 0, 0, 0]}, r"obs_mean\[1\]"),
    "log σ out of order": ({"log_std_bounds": (2.0, -5.0)}, "log_std_bounds"),
    "σ beyond float32": ({"log_std_bounds": (-5.0, 1e30)}, "between -80 and 80"),
    "no room for μ": ({"mean_bound": 0.0}, "mean_bound 0.0"),
    "a categorical policy with other bounds": ({"head": "categorical"}, r"has the bounds \[0\] and \[2\]"),
}


@pytest.mark.parametrize(("change", "said"), BROKEN.values(), ids=BROKEN)
def test_what_does_not_fit_together(make_policy, change, said):
    with pytest.raises(IlbrlError, match=said):
        Policy(**{**vars(make_policy()), **change})


def test_heads_say_what_they_lack(make_policy):
    with pytest.raises(IlbrlError, match="takes no random generator"):
        make_policy().act(np.zeros(5), np.random.default_rng(0))
    with pytest.raises(IlbrlError, match="no action density"):
        make_policy().log_prob(np.zeros((1, 5)), np.zeros((1, 3)))
    with pytest.raises(IlbrlError, match="only a categorical one has probabilities"):
        make_policy().probabilities(np.zeros(5))


# --- the light install ---


def test_numpy_and_safetensors_are_enough_to_deploy(make_policy, tmp_path):
    """In a process where nothing else that is installed can be imported."""
    path = make_policy("tanh_gaussian", obs_low=-np.ones(5), obs_high=np.ones(5)).save(tmp_path / "policy")
    script = textwrap.dedent(f"""
        import sys
        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] not in {{*sys.stdlib_module_names, "numpy", "safetensors", "ilbrl"}}:
                    raise ModuleNotFoundError(f"{{name}} is not part of the light install")
        sys.meta_path.insert(0, Blocked())
        import ilbrl
        policy = ilbrl.Policy.load({str(path)!r})
        print(policy.act([0.0] * 5), policy.guarded().act([0.0] * 5), policy)
        installed = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
        print(*sorted(name for name in installed if not name.startswith("_")), file=sys.stderr)
    """)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert {"ilbrl", "numpy", "safetensors"} <= set(done.stderr.split())
    assert not {"jax", "scipy", "tyro", "rich", "h5py"} & set(done.stderr.split())
