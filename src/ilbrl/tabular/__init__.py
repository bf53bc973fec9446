"""The tabular world: finite MDPs, ILBRL with phased Q-learning, and the paper's bounds as functions.

The exact twin of the rest of the package, in which every claim can be computed instead of estimated:

    mdp, worlds   finite MDPs, dense and sparse; Garnet, grid, RiverSwim, Gymnasium's toy-text environments
    exact         stationary distributions, values, mixing times, spectra, total variation
    planning      optimal policies, discounted and average
    logs          rolled-out transitions; from and to `ilbrl.Dataset`
    phased        phased Q-learning and its three sources of samples; `alias`: fast draws from wide distributions
    imitation     Algorithm 1 (ILBRL) and behavioural cloning; `dice`: SMODICE
    lemmas        Lemmas 1–7, one function each
    bounds        Theorem 1: ε, δ → γ, ℓ, m, N, |D_E|, |D_X|, and back

`python -m benchmarks.lemmas` checks every lemma on random MDPs.
"""

from ilbrl.tabular.bounds import Bounds, Problem, guaranteed_epsilon, problem_of, theorem1
from ilbrl.tabular.dice import smodice
from ilbrl.tabular.imitation import behavioural_cloning, ilbrl, intrinsic_reward
from ilbrl.tabular.logs import Log, rollout, rollouts
from ilbrl.tabular.mdp import FiniteMDP, policy_chain, uniform_policy
from ilbrl.tabular.phased import batch, generative_model, phased_q_learning, simulated_sampling
from ilbrl.tabular.planning import average_optimum, discounted_optimum
from ilbrl.tabular.worlds import garnet, grid_world, river_swim, toy_text, world

__all__ = [
    "Bounds",
    "FiniteMDP",
    "Log",
    "Problem",
    "average_optimum",
    "batch",
    "behavioural_cloning",
    "discounted_optimum",
    "garnet",
    "generative_model",
    "grid_world",
    "guaranteed_epsilon",
    "ilbrl",
    "intrinsic_reward",
    "phased_q_learning",
    "policy_chain",
    "problem_of",
    "river_swim",
    "rollout",
    "rollouts",
    "simulated_sampling",
    "smodice",
    "theorem1",
    "toy_text",
    "uniform_policy",
    "world",
]
