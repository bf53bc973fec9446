"""Imagined steps in a study: made once from the training part, for the algorithms that ask for them.

One kind of job: `imagine` trains teachers and models, and leaves imagined.npz. Labels and training then see the
training logs with these steps after them; evaluation sees none of them, and has models of its own.
"""

from __future__ import annotations

from ilbrl.agents import AGENTS
from ilbrl.base.errors import IlbrlError
from ilbrl.base.records import from_json, shown, to_plain
from ilbrl.data import Dataset, concatenate, save
from ilbrl.models.imagination import TEACHER, Imagination, imagine, read_imagined, require_imaginable
from ilbrl.results.schema import ImaginedRecord
from ilbrl.study.estimator import changes_of
from ilbrl.study.jobs import Assignment, Job, counted
from ilbrl.study.logs import PARTS_OF_TRAINING, Parts
from ilbrl.study.search import default_of
from ilbrl.study.study import SEEDS_PER_STUDY, Study

FILE = "imagined.npz"
FIRST_SEED = SEEDS_PER_STUDY // 2  # of the teachers, from the study's first


def imagination_of(study: Study) -> Imagination:
    """The study's settings; algorithms that cannot learn from imagined steps are refused."""
    for name in study.training.imagine:
        if name not in study.search.algorithms:
            raise IlbrlError(f"training.imagine: {shown(name)} is none of this study's search.algorithms")
        require_imaginable("training.imagine", name)
    return Imagination(**changes_of(Imagination, study.training.imagination, "training.imagination"))


def imagination_job(study: Study, parts: Parts, updates: int) -> Job | None:
    """None: no algorithm asks for imagined steps. updates: of each teacher."""
    settings = imagination_of(study)
    if not study.training.imagine:
        return None
    inputs = {
        "settings": to_plain(settings),
        "config": to_plain(default_of(study.search, TEACHER, parts.discrete)),
        "updates": updates,
        "seed": study.policy_seeds[0] + FIRST_SEED,
        "data": {name: parts.hashes[name] for name in PARTS_OF_TRAINING},
    }
    return Job("imagine", inputs, updates=settings.updates(updates), members=settings.teachers)


def imagine_steps(task: Assignment) -> None:
    """The work of an `imagine` job: imagined.npz."""
    inputs, split = task.inputs, task.parts.composition
    found = imagine(
        split.training_expert,
        split.training_logs,
        from_json(Imagination, inputs["settings"], "an imagining job"),
        config=from_json(AGENTS[TEACHER].Config, inputs["config"], "an imagining job"),
        updates=inputs["updates"],
        seed=inputs["seed"],
        workplace=task.folder,
        log=counted(task.report),
        quiet=True,
    )
    save(found, task.folder / FILE)
    task.finish(ImaginedRecord(len(found), found.num_episodes, int(found.terminals.sum())))


def training_logs(task: Assignment) -> Dataset:
    """The training part of the logs, and after it the imagined steps that a job builds on."""
    logs = task.parts.composition.training_logs
    if not task.builds_on("imagine"):
        return logs
    return concatenate([logs, read_imagined(task.of_kind("imagine") / FILE, logs)])
