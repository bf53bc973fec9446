"""Small policies of every head and depth, with and without LayerNorm and normaliser."""

import itertools

import numpy as np
import pytest

from ilbrl.policy import Layer, Policy


@pytest.fixture(scope="session")
def make_policy():
    """make_policy(head, hidden, …): random weights, 5 observations; 3 numbers or one of 4 actions."""

    def make(head="deterministic", hidden=(16, 12), layer_norm=False, normalised=True, seed=0, **options):
        rng = np.random.default_rng(seed)
        outputs = {"deterministic": 3, "tanh_gaussian": 6, "categorical": 4}[head]
        sizes = [5, *hidden, outputs]
        layers = []
        for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
            weight, bias = rng.normal(size=(fan_in, fan_out)) / np.sqrt(fan_in), 0.1 * rng.normal(size=fan_out)
            norm = (rng.uniform(0.5, 1.5, fan_out), 0.1 * rng.normal(size=fan_out)) if layer_norm else ()
            layers.append(Layer(weight, bias, *(norm if i < len(sizes) - 2 else ())))
        bounds = ([0], [3]) if head == "categorical" else ([-1.0, -2.0, 0.0], [1.0, 4.0, 0.5])
        normaliser = {"obs_mean": rng.normal(size=5), "obs_std": rng.uniform(0.5, 2.0, 5)} if normalised else {}
        return Policy(tuple(layers), *bounds, head=head, **normaliser, **options)

    return make
