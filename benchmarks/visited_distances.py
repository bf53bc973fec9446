"""Value policies without rewards by distances between distributions: the steps visited in models, and the expert's.

    ilbrl demo --seed 360 --out runs/distances/clinic-360                               (360 to 365; minutes for each)
    ilbrl tune --reveal runs/distances/clinic-360 --episodes 200
    ilbrl tune studies/small-hopper.toml --seed 360 --configurations 6 --configurations-of bc 2 --seeds 2 \\
        --ranges ilbrl.lam "loguniform(0.3, 10)" --out runs/distances/hopper-360        (360 and 361)
    ilbrl tune --reveal runs/distances/hopper-360 --episodes 10
    python -m benchmarks.visited_distances runs/distances/* --out docs/results/distances
    python -m benchmarks.visited_distances --table docs/results/distances

Takes finished studies whose candidates have all been played. Every candidate is played once more in the study's models,
from the same initial states and with the same noise as when it was valued. The steps (s, a) that it visits, each with
the chance that the episode still lives, are compared with the demonstrations' in the units of `ope.closeness`. That
leaves out the penalty on disagreement and the test of the first steps, which values by rewards and closeness have;
closeness without its penalty is told beside. TASK.json has a record for each study: what every configuration is worth
by each way of valuing, and its true score. A study that is in it already is not measured again.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import cdist

from ilbrl import ope
from ilbrl.base.provenance import commit, versions
from ilbrl.base.records import from_json, parse_json, read_text, write_json
from ilbrl.data import Dataset
from ilbrl.learning.spec import Spec
from ilbrl.models import Models, acting
from ilbrl.models.stepping import constants_of, drawn_pattern, in_network_units, next_state
from ilbrl.policy import Policy
from ilbrl.report.scoreboard import played_configurations, truth
from ilbrl.results import read_run
from ilbrl.results.folder import Run
from ilbrl.results.schema import TrainedRecord
from ilbrl.results.tables import Key, candidates_of_jobs
from ilbrl.study.estimator import estimator_of
from ilbrl.study.jobs import read_result
from ilbrl.study.logs import load_logs, split
from ilbrl.study.study import Study

DRAWN = 2000  # steps of each side that are compared
WAYS = {  # name in the records → in the table
    "rewards": "rewards, as in the study",
    "closeness": "closeness",
    "closeness_unpenalised": "closeness, without the penalty",
    "to_expert": "visited steps to the nearest expert step",
    "recall": "expert steps to the nearest visited step",
    "energy": "energy distance",
    "energy_states": "energy distance of states alone",
    "energy_ends": "energy distance, ended episodes counted",
    "energy_starts": "energy distance, from the demonstrations' starts",
    "energy_starts_ends": "the same, ended episodes counted",
    "mmd": "MMD",
    "mmd_states": "MMD of states alone",
}
HIGHER_IS_BETTER = ("rewards", "closeness", "closeness_unpenalised")  # the others are distances


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", type=Path, help="run folders")
    parser.add_argument("--out", type=Path, help="a folder for TASK.json")
    parser.add_argument("--table", type=Path, help="print the table of a folder")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(records(args.table))))
        return
    if not args.studies or args.out is None:
        parser.error("name run folders and --out, or --table")
    for folder in args.studies:
        found, task, seed = records(args.out), read_run(folder).task, Study.load(folder / "study.toml").seed
        studies = found.get(task, [])
        if seed not in [study["seed"] for study in studies]:
            studies = sorted([*studies, measure(folder)], key=lambda study: study["seed"])
            write_json(args.out / f"{task}.json", _provenance() | {"studies": studies})
            print(f"{folder.name} is measured", flush=True)
    print("\n".join(table(records(args.out))))


def _provenance() -> dict[str, Any]:
    return {
        "date": date.today().isoformat(),
        "commit": commit(),
        "versions": versions(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
    }


# --- distances --------------------------------------------------------------------------------------------------------


class Steps(NamedTuple):
    """A distribution of steps."""

    features: np.ndarray  # [N, D]
    weights: np.ndarray  # [N] sum to 1


def energy_distance(x: Steps, y: Steps) -> float:
    """2 E‖X − Y‖ − E‖X − X′‖ − E‖Y − Y′‖, which is 0 only where both distributions are the same."""

    def mean(a: Steps, b: Steps) -> float:
        return float(a.weights @ cdist(a.features, b.features) @ b.weights)

    return 2 * mean(x, y) - mean(x, x) - mean(y, y)


def squared_mmd(x: Steps, y: Steps, width: float) -> float:
    """E k(X, X′) + E k(Y, Y′) − 2 E k(X, Y) with k(x, y) = exp(−‖x − y‖² / 2 width²): maximum mean discrepancy."""

    def mean(a: Steps, b: Steps) -> float:
        kernel = np.exp(-np.square(cdist(a.features, b.features) / width) / 2)
        return float(a.weights @ kernel @ b.weights)

    return mean(x, x) + mean(y, y) - 2 * mean(x, y)


def to_nearest(x: Steps, y: Steps) -> float:
    """E min_y ‖X − y‖."""
    return float(x.weights @ cdist(x.features, y.features).min(-1))


def usual_distance(x: np.ndarray) -> float:
    """The median distance between two rows: the width of the kernel."""
    return float(np.median(cdist(x, x)[np.triu_indices(len(x), 1)]))


def draw(weights: np.ndarray, count: int, offset: float = 0.5) -> np.ndarray:
    """[count] row numbers, each as often as its weight says: at even places along the sum of the weights."""
    edges = np.cumsum(weights, dtype=np.float64)
    places = (np.arange(count) + offset) / count * edges[-1]
    return np.minimum(np.searchsorted(edges, places, side="right"), len(weights) - 1)


# --- steps ------------------------------------------------------------------------------------------------------------


class Visited(NamedTuple):
    """The steps of one policy's rollouts, by step, member and initial state, in the user's units."""

    observations: np.ndarray  # [H, K, M, obs_dim]
    actions: np.ndarray  # [H, K, M, act_dim]; one-hot where they are discrete
    alive: np.ndarray  # [H, K, M] the chance that the episode still lives
    ends: np.ndarray  # [H, K, M] the chance that it ends with this step


class Game(NamedTuple):
    """Static parts of the program."""

    models: Any  # predict and config
    horizon: int
    averaged: bool
    ends: bool


class Rules(NamedTuple):
    """How an episode goes on; the same as in `ilbrl.models.rollouts`."""

    horizon: int
    noise: float
    averaged: bool
    learned_ends: bool


def visit(policy: Policy, ensemble: Models, starts: np.ndarray, rules: Rules) -> Visited:
    """Play a policy in every member from every one of `starts` ([M, obs_dim]); its mean action."""
    shape, stacked = acting.shape_of(policy), acting.stack([policy])
    game = Game(
        (ensemble.predict, ensemble.config),
        rules.horizon,
        rules.averaged and ensemble.members > 1,
        rules.learned_ends and ensemble.config.ends,
    )
    one = jax.tree.map(lambda leaf: leaf[0], stacked)
    found = _visit(shape, game, one, constants_of(ensemble), jnp.asarray(starts, jnp.float32), rules.noise)
    return Visited(*map(np.asarray, found))


@partial(jax.jit, static_argnums=(0, 1))
def _visit(shape, game, policy, constants, starts, noise):
    """The steps of `models.rollouts._play` for one policy, kept instead of added up."""
    (predict, config), members, obs_dim = game.models, len(constants["layers"][0]["w"]), starts.shape[-1]
    key = jax.random.key(0)

    def model(inputs):
        """[K, M, in] inputs → what each rollout follows, [K, M, out]."""
        if not game.averaged:
            return jax.vmap(lambda one, own: predict(one, own, config.dtype))(constants["layers"], inputs)
        every = jax.vmap(lambda one: predict(one, inputs.reshape(-1, inputs.shape[-1]), config.dtype))
        every = every(constants["layers"]).reshape(members, *inputs.shape[:-1], -1)
        return (every.sum(0) - every[jnp.arange(members), jnp.arange(members)]) / (members - 1)

    def step(carry, t):
        state, alive = carry  # [K, M, obs_dim], [K, M]
        noise_key, _ = jax.random.split(jax.random.fold_in(key, t))  # every policy meets the same noise
        acted = acting.act(shape, policy, state.reshape(-1, obs_dim)).reshape(*state.shape[:-1], -1)
        inputs = in_network_units(constants, state, acted, shape.head == "categorical")
        own = model(jnp.concatenate(inputs, -1))
        missed = constants["residual_std"] * jax.random.normal(noise_key, state.shape)
        pattern = drawn_pattern(config, own, jax.random.fold_in(noise_key, 1))
        _, following = next_state(constants, state, own[..., :obs_dim] + noise * missed, pattern)
        survives = jax.nn.sigmoid(-own[..., -1]) if game.ends else jnp.ones(alive.shape)
        return (following, alive * survives), (state, acted, alive, alive * (1 - survives))

    state = jnp.broadcast_to(starts, (members, *starts.shape))
    return jax.lax.scan(step, (state, jnp.ones(state.shape[:-1])), jnp.arange(game.horizon))[1]


def joined(visited: Sequence[Visited]) -> Visited:
    """Of several ensembles."""
    return Visited(*(np.concatenate(fields, axis=1) for fields in zip(*visited)))


def visited_steps(visited: Visited, spec: Spec, count_ends: bool = False) -> Steps:
    """Drawn by the chance that the episode lives.

    count_ends: an episode that ends stays at its last step until the horizon, marked as ended.
    """
    horizon = len(visited.alive)
    left = horizon - 1 - np.arange(horizon)[:, None, None]
    weights = np.stack([visited.alive, visited.ends * left * count_ends])
    ended, rows = np.divmod(draw(weights.ravel(), DRAWN), visited.alive.size)
    observations, actions = (x.reshape(-1, x.shape[-1])[rows] for x in visited[:2])
    if not spec.discrete:
        centre, half_range = spec.action_affine
        actions = (actions - centre) / half_range
    return Steps(_features(spec.standardise(observations), actions, ended), np.full(DRAWN, 1 / DRAWN))


def expert_steps(expert: Dataset, spec: Spec, horizon: int, count_ends: bool = False) -> Steps:
    """The demonstrations' steps; where they are many, some of them."""
    left = np.maximum(horizon - 1 - expert.step_of, 0) * expert.terminals * count_ends
    weights = np.concatenate([np.ones(len(expert)), left])
    chosen = np.flatnonzero(weights) if len(expert) <= DRAWN else draw(weights, DRAWN)
    weights = weights[chosen] if len(expert) <= DRAWN else np.ones(DRAWN)
    ended, rows = np.divmod(chosen, len(expert))
    observations, actions = spec.standardise(expert.observations[rows]), spec.encode_actions(expert.actions[rows])
    return Steps(_features(observations, actions, ended), weights / weights.sum())


def _features(observations: np.ndarray, actions: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """[N, obs_dim + act_dim + 1]; what has ended is as far from what lives as usual states are from their mean."""
    mark = np.sqrt(observations.shape[-1]) * ended
    return np.concatenate([observations, actions, mark[:, None]], -1).astype(np.float64)


def distances(visited: Visited, from_starts: Visited, expert: Dataset, spec: Spec) -> dict[str, float]:
    """Way of valuing → the distance; `from_starts`: visited from where the demonstrations began."""
    horizon = len(visited.alive)
    own, theirs = visited_steps(visited, spec), expert_steps(expert, spec, horizon)
    whole = expert_steps(expert, spec, horizon, True)
    own_states, their_states = (Steps(x.features[:, : spec.obs_dim], x.weights) for x in (own, theirs))
    return {
        "to_expert": to_nearest(own, theirs),
        "recall": to_nearest(theirs, own),
        "energy": energy_distance(own, theirs),
        "energy_states": energy_distance(own_states, their_states),
        "energy_ends": energy_distance(visited_steps(visited, spec, True), whole),
        "energy_starts": energy_distance(visited_steps(from_starts, spec), theirs),
        "energy_starts_ends": energy_distance(visited_steps(from_starts, spec, True), whole),
        "mmd": squared_mmd(own, theirs, usual_distance(theirs.features)),
        "mmd_states": squared_mmd(own_states, their_states, usual_distance(their_states.features)),
    }


# --- a study ----------------------------------------------------------------------------------------------------------


def measure(folder: Path) -> dict[str, Any]:
    """One study's record."""
    started = time.monotonic()
    run, study = read_run(folder), Study.load(folder / "study.toml")
    valuer, policies = estimator_of(study), _policies(run)
    if valuer.estimator.name != "models":
        raise SystemExit(f"{folder}: it has no learned models to play in; value by `models` (evaluation.estimator)")
    parts = split(study, load_logs(study, quiet=True))
    evidence = ope.Evidence.of_composition(parts.composition, intrinsic=True)
    config = from_json(valuer.estimator.Config, run.tuning.config, f"{folder}/tuning.json")
    by_name = {str(key): policy for key, policy in policies.items()}
    with tempfile.TemporaryDirectory() as place:
        for prepared in folder.glob("jobs/prepare-*"):
            shutil.copytree(prepared, place, dirs_exist_ok=True)
        files = sorted(Path(place).glob("models-*.safetensors"))
        asked = [config, replace(config, penalty=0.0)]
        closeness, unpenalised = valuer.estimator.estimate(
            by_name, evidence, asked, valuer.seeds, workplace=Path(place), quiet=True
        )
        if sorted(Path(place).glob("models-*.safetensors")) != files:
            raise SystemExit(f"{folder}: its models are not of these logs")
        ensembles = [Models.load(file) for file in files]
    available = len(evidence.initial_observations)
    starts = evidence.initial_observations[np.linspace(0, available - 1, min(config.starts, available)).astype(int)]
    expert, spec = parts.composition.training_expert, evidence.spec
    theirs = np.resize(expert.initial_observations, starts.shape)  # each as often as the others
    rules = Rules(config.horizon or evidence.horizon, config.noise, config.averaged, config.learned_ends)
    offline = {c.key: c.offline_value for c in run.candidates}
    values: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for key, policy in policies.items():
        visited, from_starts = (
            joined([visit(policy, each, where, rules) for each in ensembles]) for where in (starts, theirs)
        )
        values.setdefault(key[:2], []).append(
            {
                "rewards": offline[key],
                "closeness": closeness[str(key)].value,
                "closeness_unpenalised": unpenalised[str(key)].value,
                **distances(visited, from_starts, expert, spec),
            }
        )
    true = played_configurations(run)
    return {
        "task": run.task,
        "seed": study.seed,
        "seconds": round(time.monotonic() - started, 1),
        "configurations": [
            {
                "algorithm": algorithm,
                "configuration": number,
                "score": round(true[algorithm][number].value, 3),
                "values": {way: float(f"{np.mean([each[way] for each in seeds]):.6g}") for way in WAYS},
            }
            for (algorithm, number), seeds in values.items()
        ],
    }


def _policies(run: Run) -> dict[Key, Policy]:
    """Of all candidates; refused where some diverged or have not been played."""
    jobs = [path.parent for path in sorted(run.path.glob("jobs/train-*/result.json"))]
    trained = candidates_of_jobs({job: read_result(job, TrainedRecord) for job in jobs}, [])
    if any(c.diverged for c in trained) or any(truth(run, c) is None for c in run.candidates):
        raise SystemExit(f"{run.path}: a candidate diverged or was not played (ilbrl tune --reveal {run.path})")
    files = {c.key: c.policy for c in trained if c.policy is not None}
    return {c.key: Policy.load(files[c.key]) for c in run.candidates}


# --- what came of it --------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """What valuing in one way came to in one study."""

    spearman: float  # of configurations, with their true scores; 0 where all are valued alike
    chosen: float  # true score of the configuration with the highest value; the mean where several have it


def judge(study: Mapping[str, Any], way: str, algorithm: str | None = None) -> Judged:
    """algorithm: choose among its configurations; None: among those of all."""
    own = [c for c in study["configurations"] if algorithm in (None, c["algorithm"])]
    sign = 1 if way in HIGHER_IS_BETTER else -1
    worth, true = np.array([sign * c["values"][way] for c in own]), np.array([c["score"] for c in own])
    correlation = ope.spearman(worth, true) if np.ptp(worth) else 0.0
    return Judged(correlation, float(true[worth == worth.max()].mean()))


def scores(study: Mapping[str, Any], algorithm: str | None = None) -> list[float]:
    return [c["score"] for c in study["configurations"] if algorithm in (None, c["algorithm"])]


def records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Task → its studies."""
    return {path.stem: parse_json(read_text(path), str(path))["studies"] for path in sorted(folder.glob("*.json"))}


def table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """True score of the choice and, in brackets, the rank correlation; means over a task's studies."""
    groups = [(studies, algorithm) for studies in found.values() for algorithm in ("ilbrl", None)]
    names = [f"{task}, {whose}" for task in found for whose in ("ILBRL", "ILBRL and BC")]
    yield f"| valued by | {' | '.join(names)} |"
    yield "|---|" + "---:|" * len(names)
    for way, name in WAYS.items():
        judged = [[judge(study, way, algorithm) for study in studies] for studies, algorithm in groups]
        means = [np.mean(each, axis=0) for each in judged]
        cells = [f"{chosen:.1f} ({correlation:.2f})".replace("-", "−") for correlation, chosen in means]
        yield f"| {name} | {' | '.join(cells)} |"
    for name, number in (("at random", np.mean), ("best there was", np.max)):
        means = [np.mean([number(scores(study, algorithm)) for study in studies]) for studies, algorithm in groups]
        yield f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} |"


if __name__ == "__main__":
    main()
