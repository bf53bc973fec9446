"""How long a study or an evaluation will take: an estimate before it starts.

It comes from what the networks cost and a short probe.

An update passes through each of its networks about as often as the state of training holds it (parameters, two moments
of Adam, a target), so one multiplication and one addition per number of that state and row of the batch is what it
costs. The probe says how many of these this machine does in a second. Expect a factor of two either way.

On an accelerator nothing is said: there a population is bound by other things than products, and takes minutes.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp

from ilbrl import ope
from ilbrl.agents import AGENTS
from ilbrl.base.progress import in_words
from ilbrl.base.records import from_json
from ilbrl.learning.spec import Spec
from ilbrl.models.imagination import TEACHER
from ilbrl.ope.policies import CLONING
from ilbrl.study.estimator import estimator_of
from ilbrl.study.evaluation import cloning_config
from ilbrl.study.imagining import imagination_of
from ilbrl.study.jobs import Job
from ilbrl.study.logs import Parts
from ilbrl.study.search import default_of
from ilbrl.study.study import Study
from ilbrl.study.training import updates_of

COMPILING = 8.0  # seconds of each job that are not updates: compilation above all
EFFICIENCY = 1.2  # of the probe's rate: what populations of agents reach
MODELS = 0.5  # of theirs: what models of the dynamics reach, with their LayerNorm and SiLU
SIDE, PRODUCTS, PROBING = 256, 100, 0.3  # of the probe: matrices as large as a usual layer, products, seconds


def time_ahead(study: Study, parts: Parts, missing: Sequence[Job]) -> str | None:
    """Sentences about jobs still to be done, and about valuing what they train; None: no jobs, or no estimate."""
    if not missing or jax.default_backend() != "cpu":
        return None
    rate, spec = EFFICIENCY * operations_per_second(), parts.evidence.spec
    taking = [(job.kind, seconds_of(job, study, spec, rate)) for job in missing if job.kind != "label"]
    training = sum(seconds for kind, seconds in taking if kind == "train")
    imagining = sum(seconds for kind, seconds in taking if kind == "imagine")
    checking = sum(seconds for kind, seconds in taking if kind not in ("train", "imagine"))
    trainings = sum(job.members for job in missing if job.kind == "train")
    parted = [
        f"{trainings} trainings of {updates_of(study, parts):,} updates {in_words(training)}" if training else "",
        f"imagined steps {in_words(imagining)}" if imagining else "",
        f"the evaluator {in_words(checking)}" if checking else "",
    ]
    said = f"about {in_words(training + imagining + checking)} ahead on this machine, estimated from a short probe"
    return f"{said}: {', '.join(filter(None, parted))}{_shorter(study, training)}"


def evaluation_ahead(
    estimator: ope.Estimator,
    config: Any,
    seeds: Sequence[int],
    evidence: ope.Evidence,
    policies: int,
    check: Literal["known", "clones"] | None = None,
) -> str | None:
    """The same about valuing so many policies; None: no networks are trained for that, or no estimate.

    check: on what the estimator is to be checked before.
    """
    networks = estimator.networks(config)
    if networks is None or jax.default_backend() != "cpu":
        return None
    rate, logs = EFFICIENCY * operations_per_second(), list(evidence.logs) if check else []
    left = [log for log in logs if estimator.blind and evidence.without(log) is not None]
    prepared = (1 + len(left)) * estimator.preparation(config, seeds)
    settings = estimator.choices(config, evidence).configs
    valued = policies * estimator.updates(config, seeds)
    valued += len(logs) * sum(estimator.updates(each, seeds) for each in settings)
    seconds = COMPILING * (2 + len(left))
    seconds += mlp_operations(networks, evidence.spec) * (valued + prepared / MODELS) / rate
    if check == "clones":
        updates = CLONING * agent_operations("bc", AGENTS["bc"].presets["default"], evidence.spec)
        seconds += len(logs) * (COMPILING + updates / rate)
    said = f"about {in_words(seconds)} ahead on this machine, estimated from a short probe"
    return f"{said}; fewer --updates make it shorter" if seconds > 60 else said


def _shorter(study: Study, training: float) -> str:
    """What would spare half of the training, where it is long enough to care."""
    fields = {"--configurations": study.search.configurations, "--seeds": study.training.seeds}
    option = next((name for name, value in fields.items() if value > 1), None)
    if option is None or training < 60:
        return ""
    fewer = fields[option] // 2
    spared = training * (1 - fewer / fields[option])
    return f"; {option} {fewer} would save {in_words(spared)}"


def seconds_of(job: Job, study: Study, spec: Spec, rate: float) -> float:
    """rate: multiplications and additions per second."""
    chosen = estimator_of(study)
    valuing = mlp_operations(chosen.estimator.networks(chosen.config), spec)
    if job.kind == "train":
        config = from_json(AGENTS[job.inputs["algorithm"]].Config, job.inputs["configurations"][0]["config"], job.id)
        policies = job.members // job.inputs["committee"]
        valued = policies + int(study.evaluation.together)  # and one choice's seeds as one policy
        evaluated = valued * chosen.estimator.updates(chosen.config, chosen.seeds)
        operations = job.updates * agent_operations(job.inputs["algorithm"], config, spec) + evaluated * valuing
        return 2 * COMPILING + operations / rate  # training, and the evaluation of what it trains
    if job.kind == "imagine":
        config, settings = default_of(study.search, TEACHER, spec.discrete), imagination_of(study)
        teaching = settings.rounds * settings.teachers * job.inputs["updates"]
        models = (job.updates - teaching) * mlp_operations(settings.dynamics, spec) / MODELS
        compiling = (1 + 2 * settings.rounds) * COMPILING
        return compiling + (teaching * agent_operations(TEACHER, config, spec) + models) / rate
    if job.kind == "clone":
        return COMPILING + job.updates * agent_operations("bc", cloning_config(study), spec) / rate
    return COMPILING + job.updates * valuing / rate / MODELS


def agent_operations(algorithm: str, config: Any, spec: Spec) -> float:
    """Of one update of one member."""
    learner = AGENTS[algorithm].solver_for(spec).learner
    state = jax.eval_shape(lambda key: learner.init(config, spec, key), jax.random.key(0))
    return 2.0 * config.batch_size * sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(state))


def mlp_operations(config: Any, spec: Spec) -> float:
    """Of one update of a network (s, a) → a state or a value: forwards, and backwards for inputs and weights."""
    if config is None:
        return 0.0
    sizes = (spec.obs_dim + spec.act_dim, *config.hidden, spec.obs_dim)
    return 6.0 * config.batch_size * sum(a * b for a, b in itertools.pairwise(sizes))


def operations_per_second() -> float:
    """Multiplications and additions, measured in a fraction of a second; a busy machine does fewer."""

    @jax.jit
    def multiply(matrix: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, PRODUCTS, lambda _, m: jnp.tanh(m @ matrix), matrix)

    matrix = jnp.eye(SIDE)
    multiply(matrix).block_until_ready()  # compiled here
    done, started, took = 0, time.perf_counter(), 0.0
    while took < PROBING:
        multiply(matrix).block_until_ready()
        done, took = done + PRODUCTS, time.perf_counter() - started
    return 2.0 * SIDE**3 * done / took
