"""Ways to look at what a study did."""

import pytest

from ilbrl.policy import Policy
from ilbrl.study import executors, jobs


@pytest.fixture(scope="session")
def weights():
    """A function: the policies of a run folder, to the bit. (Their metadata names the commit, which may move.)"""

    def of(run):
        found = {str(path.relative_to(run)): Policy.load(path) for path in sorted(run.rglob("*.safetensors"))}
        assert found
        return {name: [array.tobytes() for layer in p.layers for array in layer[:2]] for name, p in found.items()}

    return of


@pytest.fixture
def done(monkeypatch):
    """The jobs that are really done from here on: (kind, algorithm or purpose)."""
    done = []

    def work(job, *rest):
        done.append((job.kind, job.inputs.get("algorithm")))
        jobs.work(job, *rest)

    monkeypatch.setattr(executors, "work", work)
    return done
