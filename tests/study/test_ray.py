"""The same study on a Ray cluster of four nodes, of which three are killed while they work."""

import contextlib
import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.study.study import Evaluation

pytest.importorskip("ray", reason="Ray is not installed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_nodes_killed_at_work_in_every_long_phase(tiny, tmp_path, weights):
    """Whoever trains the models, a policy or values one is killed with its node; the results are the same."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"size": "small", "updates": "300", "hidden": "[8]", "members": "2", "horizon": "20", "starts": "4"}
    study = replace(
        tiny,
        training=replace(tiny.training, members_per_job=2),  # four training jobs instead of two
        evaluation=Evaluation("models", small, blind=False),
    )
    local = study.run(tmp_path / "local", quiet=True)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(4)]
    killed: dict[str, list[str]] = {}  # phase → the jobs that were finished when a node at work was killed

    def kill_a_node_in_each_phase():
        jobs = tmp_path / "ray" / "jobs"
        for phase, before in {"prepare": "label", "train": "calibrate", "evaluate": "train"}.items():
            wanted = 4 if before == "train" else 1
            while len(list(jobs.glob(f"{before}-*"))) < wanted or not (busy := [n for n in nodes if at_work(n)]):
                time.sleep(0.02)
            nodes.remove(busy[0])
            os.kill(raylet_of(busy[0]), signal.SIGKILL)  # its workers go with it
            killed[phase] = [path.name for path in jobs.iterdir()]

    killer = threading.Thread(target=kill_a_node_in_each_phase, daemon=True)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        killer.start()
        result = study.run(tmp_path / "ray", executor="ray", address=cluster.address, quiet=True)
    finally:
        ray.shutdown()
        cluster.shutdown()
    for phase, finished in killed.items():
        assert sum(name.startswith(phase) for name in finished) < (1 if phase == "prepare" else 4)  # it was under way
    assert list(killed) == ["prepare", "train", "evaluate"]
    assert result.selection == local.selection
    assert weights(tmp_path / "ray" / "policies") == weights(tmp_path / "local" / "policies")
    jobs = [sorted(path.name for path in (tmp_path / where / "jobs").iterdir()) for where in ("ray", "local")]
    assert jobs[0] == jobs[1]
    assert json.loads((tmp_path / "ray" / "audit.json").read_text())["executor"] == "ray"


def raylet_of(node) -> int:
    return node.all_processes["raylet"][0].process.pid


def at_work(node) -> bool:
    """Whether a worker of this node is at a job: Ray names the process of a worker after what it does."""
    raylet = raylet_of(node)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == raylet and stat.with_name("cmdline").read_text().startswith("ray::_elsewhere"):
                return True
    return False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_goes_wrong_in_a_job_is_said_as_it_would_be_here(tiny, tmp_path):
    import ray

    few = replace(
        tiny, data=replace(tiny.data, evaluation_transitions=20)
    )  # one episode each: mixtures are out of reach
    try:
        with pytest.raises(IlbrlError, match="expert episodes cannot make evaluation data"):
            few.run(tmp_path / "run", executor="ray", quiet=True)
    finally:
        ray.shutdown()
