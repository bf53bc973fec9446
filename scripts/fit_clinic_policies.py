"""Make the source policies of the built-in clinic from its exact solution; seconds on one core.

    python scripts/fit_clinic_policies.py --out runs/source_policies
    python scripts/train_source_policies.py choose clinic --out src/ilbrl/source_policies

Every doctor has a judgement Q(s, a) of each treatment and chooses by softmax(Q / τ). The expert's is the exact Q* of
value iteration. The others judge with an error that is linear in what they see: Q* + σ (W x + b), with W and b drawn
once. The more σ, the worse the doctor. A small network is fitted to each doctor's probabilities; what a log says about
propensities is what the network says, so it is exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from ilbrl.envs import clinic
from ilbrl.learning.nets import Layers, descend, init_mlp, mlp, optimised
from ilbrl.policy import Layer, Policy

TEMPERATURE = 0.01  # τ of every doctor: the expert's samples then cost little
LARGEST_ERROR = 0.04  # σ of the worst doctor
HIDDEN, UPDATES, RATE = 24, 6_000, 3e-3


def fitted(chances: np.ndarray, seed: int) -> Policy:
    """A network whose softmax is `chances` [LIVING, 4], as nearly as training gets: least cross-entropy."""
    seen = clinic.observations()
    mean, std = seen.mean(0), seen.std(0)
    x = jnp.asarray((seen - mean) / std)

    def loss(layers: Layers) -> jax.Array:
        return -(chances * jax.nn.log_softmax(mlp(layers, x, jnp.tanh))).sum(1).mean()

    def one(net: Any, t: jax.Array) -> tuple[Any, None]:
        return descend(net, jax.grad(loss)(net.params), RATE * (1 - t / UPDATES)), None

    start = optimised(init_mlp(jax.random.PRNGKey(seed), [x.shape[1], HIDDEN, HIDDEN, len(clinic.TREATMENTS)]))
    net, _ = jax.jit(lambda net: jax.lax.scan(one, net, jnp.arange(UPDATES)))(start)
    layers = tuple(Layer(layer["w"], layer["b"]) for layer in jax.device_get(net.params))
    last = np.array([len(clinic.TREATMENTS) - 1.0])
    about = {"task": "clinic", "action_names": list(clinic.TREATMENTS)}
    return Policy(layers, np.zeros(1), last, "categorical", mean, std, "tanh", metadata=about)


def main(out: Path = Path("runs/source_policies"), doctors: int = 41, seed: int = 0) -> None:
    """Write doctors of falling quality as checkpoints, for `choose` to choose among.

    Args:
        out: Where they go, in a folder `clinic`.
        doctors: How many, the expert among them.
        seed: Of the errors of judgement and of the networks.
    """
    rng, judged = np.random.default_rng(seed), clinic.optimal_judgement()
    seen = clinic.observations()
    x = (seen - seen.mean(0)) / seen.std(0)
    error = x @ rng.normal(size=(x.shape[1], judged.shape[1])) / np.sqrt(x.shape[1]) + rng.normal(size=judged.shape[1])
    for number, sigma in enumerate(np.linspace(0, LARGEST_ERROR, doctors)):
        logits = (judged + sigma * error) / TEMPERATURE
        chances = np.exp(logits - logits.max(1, keepdims=True))
        policy = fitted(chances / chances.sum(1, keepdims=True), seed)
        exact = {"checked_return": clinic.value(policy), "sampled_return": clinic.value(policy, stochastic=True)}
        note = policy.with_metadata(judgement_error=round(float(sigma), 4), **exact)
        note.save(out / "clinic" / f"step-{number:08}.safetensors")
        print(f"σ = {sigma:.4f}: exact return {' and '.join(f'{v:.3f}' for v in exact.values())} sampled", flush=True)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
