from dataclasses import replace

import jax
import numpy as np
import pytest

from ilbrl.agents.td3bc import Config
from ilbrl.base.errors import IlbrlError
from ilbrl.learning.config import check, stack
from ilbrl.ope import ESTIMATORS


def test_floats_are_traced_and_the_rest_is_static():
    traced = jax.tree.leaves(Config())
    assert len(traced) == 7
    assert all(isinstance(leaf, float) for leaf in traced)
    together = stack([Config(), replace(Config(), lam=1.0)])
    np.testing.assert_allclose(together.lam, [2.5, 1.0])
    assert together.hidden == (256, 256)


@pytest.mark.parametrize(
    ("name", "value"),
    [("actor_lr", -1.0), ("critic_lr", np.nan), ("gamma", 1.0), ("tau", 1.5), ("policy_noise", -0.1), ("batch_size", 0),
     ("hidden", (8, 0)), ("hidden", 8), ("dtype", "float16"), ("deploy_lam", -1.0), ("actor_lr", np.inf)],
)  # fmt: skip
def test_values_that_nobody_means_are_refused_by_name(name, value):
    check([Config()])
    with pytest.raises(IlbrlError, match=f"^{name}: must be"):
        check([Config(), replace(Config(), **{name: value})])


@pytest.mark.parametrize("estimator", ["models", "importance"])
def test_an_episode_needs_no_discount(estimator):
    default = ESTIMATORS[estimator].Config()
    check([default])
    check([replace(default, gamma=0.5)])
    with pytest.raises(IlbrlError, match=r"^gamma: must be a finite number, between 0 and 1, got 1\.5"):
        check([replace(default, gamma=1.5)])


@pytest.mark.parametrize(
    ("name", "value"), [("updates", 0), ("members", 0), ("penalty", -1.0), ("allowed", -1.0), ("dtype", "float16")]
)
def test_settings_of_models_have_limits(name, value):
    with pytest.raises(IlbrlError, match=f"^{name}: must be"):
        check([replace(ESTIMATORS["models"].Config(), **{name: value})])


def test_an_optional_float_is_traced_where_it_is_on():
    on, off = replace(Config(), deploy_lam=2.0), Config()
    np.testing.assert_allclose(stack([on, replace(on, deploy_lam=3.0)]).deploy_lam, [2.0, 3.0])
    for pair in ([on, off], [off, on]):
        with pytest.raises(IlbrlError, match="cannot mix values of deploy_lam"):
            stack(pair)
