from dataclasses import replace

import jax
import numpy as np

from ilbrl.agents.td3bc import Config
from ilbrl.config import stack


def test_floats_are_traced_and_the_rest_is_static():
    traced = jax.tree.leaves(Config())
    assert len(traced) == 7
    assert all(isinstance(leaf, float) for leaf in traced)
    together = stack([Config(), replace(Config(), lam=1.0)])
    np.testing.assert_allclose(together.lam, [2.5, 1.0])
    assert together.hidden == (256, 256)
