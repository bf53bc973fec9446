"""`ilbrl bounds`: Theorem 1 as a calculator."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from typing import Annotated, Any

import tyro
from tyro.conf import arg

from ilbrl.base.errors import IlbrlError
from ilbrl.tabular.bounds import Bounds, Problem, guaranteed_epsilon, problem_of, theorem1
from ilbrl.tabular.worlds import NAMES, world

DESCRIPTION = """How many transitions of the expert and of other logs keep ILBRL's regret and total variation below
epsilon with probability 1 - delta (Theorem 1 of the paper, precise constants, misprints corrected).

examples:
  ilbrl bounds --states 20 --actions 4 --epsilon 0.1 --delta 0.05 --expert-mixing-time 5 --explorer-mixing-time 8 \\
      --p-min 0.005 --beta 3 --lambda2 0.8            from numbers you know
  ilbrl bounds --mdp riverswim:6 --epsilon 0.1        everything computed from an MDP
  ilbrl bounds --mdp FrozenLake-v1 --beta 3 --json    an MDP, with one number replaced
  ilbrl bounds --mdp garnet:20x4 --expert-samples 1e9 --logs-samples 1e50
                                                      the other way round: what epsilon these data guarantee
"""
EXACT_BELOW = 10**300  # larger counts are given by their logarithm: few JSON readers accept them


@dataclass(frozen=True)
class BoundsOptions:
    mdp: Annotated[str | None, arg(metavar="NAME", help=f"compute every quantity from this MDP: {NAMES}")] = None
    states: Annotated[int | None, arg(metavar="INT", help="S")] = None
    actions: Annotated[int | None, arg(metavar="INT", help="A")] = None
    epsilon: Annotated[float, arg(help="largest regret and total variation wanted, in (0, 1]")] = 0.1
    delta: Annotated[float, arg(help="probability with which the guarantee may fail, in (0, 1)")] = 0.05
    expert_mixing_time: Annotated[int | None, arg(metavar="INT", help="t_E, steps")] = None
    explorer_mixing_time: Annotated[int | None, arg(metavar="INT", help="t_X, steps")] = None
    p_min: Annotated[
        float | None, arg(metavar="FLOAT", help="smallest share of time the explorer spends on any state-action")
    ] = None
    beta: Annotated[
        float | None, arg(metavar="FLOAT", help="kappa(Sigma) * |r|_2; or give --kappa and --reward-norm")
    ] = None
    kappa: Annotated[
        float | None, arg(metavar="FLOAT", help="condition number of the eigenvector matrix, unit columns")
    ] = None
    reward_norm: Annotated[float | None, arg(metavar="FLOAT", help="|r|_2; at most sqrt(S), which is the default")] = (
        None
    )
    lambda2: Annotated[
        float | None, arg(metavar="FLOAT", help="second largest |eigenvalue| of the optimal policy's chain")
    ] = None
    expert_samples: Annotated[
        float | None, arg(metavar="FLOAT", help="solve backwards: expert transitions you have")
    ] = None
    logs_samples: Annotated[
        float | None, arg(metavar="FLOAT", help="solve backwards: transitions of other logs you have")
    ] = None
    seed: Annotated[int, arg(help="of a random MDP (garnet)")] = 0
    json: Annotated[bool, arg(help="print one JSON object")] = False


def main(words: list[str]) -> int:
    args = tyro.cli(
        BoundsOptions, args=words, prog="ilbrl bounds", description=DESCRIPTION, config=(tyro.conf.FlagCreatePairsOff,)
    )
    problem = _problem(args)
    if args.expert_samples is not None or args.logs_samples is not None:
        return _backwards(args, problem)
    bounds = theorem1(problem, args.epsilon, args.delta)
    if args.json:
        print(json.dumps(_jsonable(args, problem, bounds), indent=2))
    else:
        print(_report(args, problem, bounds))
    return 0


def _problem(args: BoundsOptions) -> Problem:
    """The MDP's own quantities where one is named; whatever was given explicitly replaces them."""
    beta = args.beta
    if args.kappa is not None:
        if beta is not None:
            raise IlbrlError("give either --beta or --kappa (with --reward-norm), not both")
        if args.reward_norm is None and args.states is None:
            raise IlbrlError("--kappa needs --reward-norm, or --states to take its largest value sqrt(S)")
        beta = args.kappa * (math.sqrt(args.states or 0) if args.reward_norm is None else args.reward_norm)
    asked = {field.name: getattr(args, field.name, None) for field in fields(Problem)} | {"beta": beta}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if args.mdp is not None:
        return problem_of(world(args.mdp, args.seed), given=given)
    missing = [f"--{field.name.replace('_', '-')}" for field in fields(Problem) if field.name not in given]
    if missing:
        raise IlbrlError(f"needs {', '.join(missing)} (or --mdp, to compute them); see ilbrl bounds --help")
    return Problem(**given)


def _backwards(args: BoundsOptions, problem: Problem) -> int:
    if args.expert_samples is None or args.logs_samples is None:
        raise IlbrlError("to solve backwards give both --expert-samples and --logs-samples")
    if not all(1 <= samples < math.inf for samples in (args.expert_samples, args.logs_samples)):
        raise IlbrlError("--expert-samples and --logs-samples must be finite numbers, at least 1")
    expert, logs = int(args.expert_samples), int(args.logs_samples)
    epsilon = guaranteed_epsilon(problem, args.delta, expert, logs)
    if args.json:
        print(json.dumps({"epsilon": epsilon, "delta": args.delta, "inputs": asdict(problem)}, indent=2))
    elif epsilon is None:
        least = theorem1(problem, 1.0, args.delta)
        print(
            "These data guarantee nothing: even epsilon = 1, which any policy reaches, needs"
            f" {_count(least.expert_samples)} transitions of the expert and"
            f" {_count(least.logs_samples_corrected)} of the logs."
        )
    else:
        print(f"Guaranteed with probability {1 - args.delta:g}: regret and total variation below {epsilon:.4g}.")
    return 0 if epsilon is not None else 1


def _jsonable(args: BoundsOptions, problem: Problem, bounds: Bounds) -> dict[str, Any]:
    """Counts exactly where they stay below 10^300, else null; the logarithm of every count beside them."""
    numbers: dict[str, Any] = {"epsilon": args.epsilon, "delta": args.delta}
    logarithms = {}
    for name, value in vars(bounds).items():
        if isinstance(value, int | Decimal):
            logarithms[name] = _log10(value)
        if isinstance(value, int):
            numbers[name] = value if value < EXACT_BELOW else None
        else:
            numbers[name] = float(value) if math.isfinite(float(value)) else None
    return numbers | {"log10": logarithms, "inputs": asdict(problem)}


def _log10(value: int | Decimal) -> float | None:
    return float(Decimal(value).log10()) if value > 0 else None


def _count(value: int) -> str:
    return f"{value:,}" if value < 10**12 else f"10^{_log10(value):.2f}"


def _report(args: BoundsOptions, problem: Problem, bounds: Bounds) -> str:
    b = bounds
    rows = [
        ("S, A", f"{problem.states}, {problem.actions}", "states, actions"),
        (
            "t_E, t_X",
            f"{problem.expert_mixing_time}, {problem.explorer_mixing_time}",
            "mixing times of expert and explorer",
        ),
        ("p_min", f"{problem.p_min:.4g}", "smallest share of time the explorer spends on any state-action"),
        ("β, |λ₂|", f"{problem.beta:.4g}, {abs(problem.lambda2):.4g}", "κ(Σ)·‖r‖₂ and second eigenvalue"),
        ("γ", f"1 − {b.one_minus_gamma:.6g}", "discount, (αβ − 1)/(αβ − |λ₂|)"),
        ("η, ν", f"{b.eta:.4g}, {b.nu:.4g}", "discounted regret and reward error allowed"),
        ("η′", f"{b.eta_prime:.4g}", "deviation of a bootstrap allowed"),
        ("ℓ", _count(b.ell), f"phases (smallest legal: {_count(b.ell_min)})"),
        ("m", _count(b.m), "samples per state-action and phase (Lemma 3)"),
        ("N", _count(b.N), "transitions per sweep as printed (Lemma 4, δ/4 for one sweep)"),
        ("N corrected", _count(b.N_corrected), "transitions per sweep, δ/4 shared by all m·ℓ sweeps"),
        ("|D_E|", _count(b.expert_samples), "expert transitions"),
        ("|D_X|", _count(b.logs_samples), "transitions of the logs, N·m·ℓ"),
        ("|D_X| corrected", _count(b.logs_samples_corrected), "transitions of the logs, N corrected·m·ℓ"),
        ("order of |D_X|", f"10^{_log10(b.logs_order) or float('nan'):.2f}", "the O-form without its constant"),
    ]
    title = f"Theorem 1: regret and total variation below {args.epsilon:g} with probability {1 - args.delta:g}"
    return title + "\n\n" + "\n".join(f"  {name:<16} {value:>24}   {what}" for name, value, what in rows)
