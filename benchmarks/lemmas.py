"""Does each lemma hold on random Garnets as often as it states, and how loose is it?

    OMP_NUM_THREADS=1 python -m benchmarks.lemmas [--trials 500] [--seed 0] [--figures docs/figures]

Prints and draws what docs/theory.md shows; one thread, because the matrices are small. Exits with 1 if a lemma breaks
more often than it may. Every trial draws a new MDP and new parameters, and gives realised / bound: at most 1 where the
inequality holds, far below 1 where it is loose. Lemmas 1, 2, 5 and 7 are certainties; 3, 4 and 6 may fail with a stated
probability.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ilbrl.base.progress import progress
from ilbrl.report.pictures import NEUTRAL, STYLES
from ilbrl.tabular import lemmas
from ilbrl.tabular.exact import average_reward, discounted_values, mixing_time, occupancy, p_min, spectrum
from ilbrl.tabular.imitation import intrinsic_reward
from ilbrl.tabular.logs import rollout
from ilbrl.tabular.mdp import FiniteMDP, policy_chain, policy_rewards, uniform_policy
from ilbrl.tabular.phased import Phased, batch, generative_model, phased_q_learning, sampling_interval
from ilbrl.tabular.planning import average_optimum, discounted_optimum
from ilbrl.tabular.worlds import garnet

FAILURE = 0.1  # the δ of Lemmas 3, 4 and 6
ROUNDING = 1 + 1e-9
SWEEPS = (1, 10, 100, 1_000, 10_000)
SWEEP_FAILURE = 0.2  # the δ of the sweeps
FLOOR = 1e-5  # the left end of the logarithmic axis, which has no zero


class Check(NamedTuple):
    name: str
    claim: str
    ratios: np.ndarray  # [trials] realised / bound
    allowed: float  # share of trials that may exceed 1

    @property
    def failures(self) -> int:
        return int((self.ratios > ROUNDING).sum())


def random_garnet(rng: np.random.Generator, most_states: int = 10) -> FiniteMDP:
    return garnet(
        int(rng.integers(3, most_states + 1)), int(rng.integers(2, 4)), rng, branching=int(rng.integers(2, 5))
    )


def _phased_trial(rng: np.random.Generator) -> tuple[FiniteMDP, float, int, Phased]:
    """Phased Q-learning with random m, ℓ, γ and source: a generative model, or a batch with pairs missing."""
    mdp = random_garnet(rng)
    gamma, ell = float(rng.uniform(0.3, 0.98)), int(rng.integers(2, 100))
    if rng.random() < 0.5:
        source = generative_model(mdp, int(10 ** rng.uniform(0, 2)), rng)
    else:
        log = rollout(mdp, uniform_policy(mdp), int(rng.integers(20, 1_000)), rng)
        source = batch(log, mdp.num_states, mdp.num_actions, gamma)
    return mdp, gamma, ell, phased_q_learning(mdp.rewards, source, gamma, ell, truth=mdp)


def lemma_1(trials: int, rng: np.random.Generator) -> Check:
    """max |Q̂_ℓ − Q*| against its bound, with η′ the realised largest deviation."""
    ratios = np.empty(trials)
    for i in range(trials):
        mdp, gamma, ell, found = _phased_trial(rng)
        gap = np.abs(found.action_values - discounted_optimum(mdp, gamma).action_values).max()
        ratios[i] = gap / lemmas.lemma1_value_gap(found.deviation, gamma, ell)
    return Check("Lemma 1", "value gap, η′ realised", ratios, 0.0)


def lemma_2(trials: int, rng: np.random.Generator) -> Check:
    """The largest statewise regret of the greedy policy against its bound, with η′ realised."""
    ratios = np.empty(trials)
    for i in range(trials):
        mdp, gamma, ell, found = _phased_trial(rng)
        loss = (discounted_optimum(mdp, gamma).values - discounted_values(mdp, found.policy, gamma)).max()
        ratios[i] = loss / lemmas.lemma2_regret(found.deviation, gamma, ell)
    return Check("Lemma 2", "regret, η′ realised", ratios, 0.0)


def lemma_3(trials: int, rng: np.random.Generator) -> Check:
    """Regret after m samples per pair and phase, m as the lemma asks, against η."""
    ratios = np.empty(trials)
    for i in range(trials):
        mdp, gamma = random_garnet(rng), float(rng.uniform(0.4, 0.8))
        eta = float(rng.uniform(0.05, 0.5)) / (1 - gamma)
        ell = math.ceil(math.log(eta * (1 - gamma) ** 2 / 4) / math.log(gamma))
        m = math.ceil(lemmas.lemma3_samples(eta, gamma, ell, mdp.num_states, mdp.num_actions, FAILURE))
        found = phased_q_learning(mdp.rewards, generative_model(mdp, m, rng), gamma, ell)
        loss = (discounted_optimum(mdp, gamma).values - discounted_values(mdp, found.policy, gamma)).max()
        ratios[i] = loss / eta
    return Check("Lemma 3", "regret after m·ℓ parallel samples", ratios, FAILURE)


def lemma_4(trials: int, rng: np.random.Generator) -> Check:
    """Thinned samples until every pair has been seen once, against 2/p_min · log(SA/δ″) (both times T transitions)."""
    ratios = np.empty(trials)
    for i in range(trials):
        mdp = random_garnet(rng, most_states=5)
        explorer = uniform_policy(mdp)
        smallest = p_min(mdp, explorer)
        interval = sampling_interval(mixing_time(policy_chain(mdp, explorer)), smallest)
        pairs = mdp.rewards.size
        allowed = math.ceil(2 / smallest * math.log(pairs / FAILURE))
        log = rollout(mdp, explorer, allowed * interval, rng)[interval - 1 :: interval]
        _, first_seen = np.unique(log.states * mdp.num_actions + log.actions, return_index=True)
        needed = first_seen.max() + 1 if len(first_seen) == pairs else 2 * allowed
        ratios[i] = needed / allowed
    return Check("Lemma 4", "transitions for one parallel sweep", ratios, FAILURE)


def lemma_5(trials: int, rng: np.random.Generator) -> Check:
    """μ* − μ_π of a spoiled discounted-optimal policy, against β(1 − γ)/(1 − γ|λ₂|) + (1 − γ)η."""
    ratios = np.empty(trials)
    for i in range(trials):
        mdp, gamma = random_garnet(rng), float(rng.uniform(0.3, 0.999))
        best, far_sighted = average_optimum(mdp), discounted_optimum(mdp, gamma)
        spoiled = rng.random(mdp.num_states) < rng.uniform(0, 0.5)
        policy = np.where(spoiled, rng.integers(mdp.num_actions, size=mdp.num_states), far_sighted.policy)
        eta = float((far_sighted.values - discounted_values(mdp, policy, gamma)).max())
        eigen = spectrum(policy_chain(mdp, best.policy))
        beta = eigen.condition * float(np.linalg.norm(policy_rewards(mdp, best.policy)))
        ratios[i] = (best.gain - average_reward(mdp, policy)) / lemmas.lemma5_gap(beta, gamma, eigen.lambda2, eta)
    return Check("Lemma 5", "average regret of a discounted solution", ratios, 0.0)


def lemma_6(trials: int, rng: np.random.Generator) -> Check:
    """1 − the best average intrinsic reward, against ν + √(8 S t_E/|D_E|), ν chosen so that δ‴ = 0.1."""
    ratios = np.empty(trials)
    for i in range(trials):
        mdp = random_garnet(rng)
        expert = average_optimum(mdp).policy
        t = mixing_time(policy_chain(mdp, expert))
        samples = int(rng.uniform(1.5, 10) * 8 * mdp.num_states * t)
        nu = math.sqrt(4.5 * t * math.log(2 / FAILURE) / samples)
        promised, _ = lemmas.lemma6_intrinsic_reward(mdp.num_states, t, samples, nu)
        reward = intrinsic_reward(rollout(mdp, expert, samples, rng), mdp.num_states, mdp.num_actions)
        ratios[i] = (1 - average_optimum(mdp.with_rewards(reward)).gain) / (1 - promised)
    return Check("Lemma 6", "intrinsic reward within reach", ratios, FAILURE)


def lemma_7(trials: int, rng: np.random.Generator) -> Check:
    """The true reward lost by a policy that earns 1 − ε′ of intrinsic reward, for the **worst** reward in [0, 1].

    The lemma for a reward f reads Σ [(1 − ε′)ρ_E − ρ_π] f ≤ 4 t_E ε′; the f that is 1 where the bracket is positive is
    the worst. A lemma that holds for this f holds for every f. That makes Theorem 1 a statement about total variation.
    """
    ratios = np.empty(trials)
    for i in range(trials):
        mdp = random_garnet(rng)
        expert = rng.integers(mdp.num_actions, size=mdp.num_states)
        seen = rng.random(mdp.num_states) < rng.uniform(0.3, 1.0)
        policy = np.where(rng.random(mdp.num_states) < 0.7, expert, rng.integers(mdp.num_actions, size=mdp.num_states))
        rho, rho_expert = occupancy(mdp, policy), occupancy(mdp, expert)
        shortfall = 1 - float(rho[np.arange(mdp.num_states), expert][seen].sum())  # ε′
        lost = np.maximum(0, (1 - shortfall) * rho_expert - rho).sum()
        t = mixing_time(policy_chain(mdp, expert))
        ratios[i] = lost / (4 * t * shortfall) if shortfall > 1e-12 else 0.0
    return Check("Lemma 7", "true reward lost, worst reward function", ratios, 0.0)


CHECKS = (lemma_1, lemma_2, lemma_3, lemma_4, lemma_5, lemma_6, lemma_7)


def sweeps_that_fail(sweeps: int, runs: int, delta: float, rng: np.random.Generator) -> tuple[float, float]:
    """Share of runs in which at least one of `sweeps` parallel sweeps misses a pair: δ″ = δ, and δ″ = δ/sweeps.

    Two states, one action, uniform transitions: a kept sample is a fair coin, and a sweep of n fails with 2·2⁻ⁿ.
    """
    shares = []
    for per_sweep in (delta, delta / sweeps):
        kept = math.ceil(2 / 0.5 * math.log(2 / per_sweep))
        heads = rng.binomial(kept, 0.5, size=(runs, sweeps))
        shares.append(float(((heads == 0) | (heads == kept)).any(axis=1).mean()))
    return shares[0], shares[1]


# --- what is printed and drawn ------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=500, help="random MDPs per lemma")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", type=Path, help="folder for theory-lemmas.png and theory-sweeps.png")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    results = []
    with progress("lemmas", len(CHECKS), "lemmas") as advance:
        for check in CHECKS:
            results.append(check(options.trials, rng))
            advance(1, results[-1].name)
    shares = np.array([sweeps_that_fail(sweeps, 400, SWEEP_FAILURE, rng) for sweeps in SWEEPS])
    print(lemma_table(results))
    print(sweep_table(shares))
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        lemma_figure(results, rng).savefig(options.figures / "theory-lemmas.png", dpi=130)
        sweep_figure(shares).savefig(options.figures / "theory-sweeps.png", dpi=130)
    return int(any(check.failures > check.allowed * len(check.ratios) for check in results))


def lemma_table(results: list[Check]) -> str:
    rows = [
        "| lemma | trials | broken | may break | median of realised / bound | largest |",
        "|---|---|---|---|---|---|",
    ]
    for check in results:
        rows.append(
            f"| {check.name}: {check.claim} | {len(check.ratios)} | {check.failures} | {check.allowed:.0%} |"
            f" {np.median(check.ratios):.2g} | {check.ratios.max():.2g} |"
        )
    return "\n".join(rows) + "\n"


def sweep_table(shares: np.ndarray) -> str:
    rows = ["| sweeps m·ℓ | δ″ = δ, as printed | δ″ = δ/(m·ℓ) |", "|---|---|---|"]
    rows += [f"| {n:,} | {printed:.3f} | {fixed:.3f} |" for n, (printed, fixed) in zip(SWEEPS, shares)]
    return "\n".join(rows) + "\n"


def lemma_figure(checks: list[Check], rng: np.random.Generator) -> Figure:
    """Every trial of every lemma as a dot at realised / bound; right of 1 the inequality is broken."""
    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    axes = figure.subplots()
    for row, check in enumerate(checks):
        shown = check.ratios[check.ratios > FLOOR]
        axes.scatter(
            shown, row + rng.uniform(-0.28, 0.28, len(shown)), s=7, color=STYLES[0].colour, alpha=0.35, linewidths=0
        )
        if (median := np.median(check.ratios)) > FLOOR:
            axes.plot([median] * 2, [row - 0.36, row + 0.36], color=STYLES[1].colour, linewidth=2.2)
        axes.plot([check.ratios.max()] * 2, [row - 0.36, row + 0.36], color="black", linewidth=1.2)
    axes.axvspan(1, 3, color=STYLES[1].colour, alpha=0.12, linewidth=0)
    axes.axvline(1, color="black", linewidth=1)
    axes.text(1.08, -0.45, "broken", color=STYLES[1].colour, va="center", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(FLOOR, 3)
    axes.set_ylim(len(checks) - 0.4, -0.7)
    axes.set_yticks(range(len(checks)), [_label(check) for check in checks])
    axes.set_xlabel("realised / bound (orange: median, black: largest)")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _label(check: Check) -> str:
    below = np.mean(check.ratios <= FLOOR)
    return f"{check.name}: {check.claim}" + (f"\n({below:.0%} of trials at or below 10⁻⁵)" if below else "")


def sweep_figure(shares: np.ndarray) -> Figure:
    """Failure of at least one sweep against the number of sweeps: [SWEEPS, 2] shares, printed and corrected."""
    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    axes = figure.subplots()
    for column, (label, colour, marker) in enumerate(
        (("δ″ = δ for each sweep, as printed", STYLES[1].colour, "^"), ("δ″ = δ / (m·ℓ)", STYLES[0].colour, "o"))
    ):
        axes.plot(SWEEPS, shares[:, column], color=colour, marker=marker, markersize=5, label=label)
    axes.axhline(SWEEP_FAILURE, color=NEUTRAL.colour, linestyle="--", linewidth=1)
    promised = f"promised: δ = {SWEEP_FAILURE:g}"
    axes.text(SWEEPS[-1], SWEEP_FAILURE + 0.02, promised, color=NEUTRAL.colour, fontsize=9, ha="right")
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel("parallel sweeps, m·ℓ")
    axes.set_ylabel("share of runs in which\nsome sweep misses a pair")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.95))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    sys.exit(main())
