"""The same study on a Ray cluster of two nodes, one of which is killed during the sweep."""

import json
import threading
import time
from dataclasses import replace

import pytest

from ilbrl.base.errors import IlbrlError

pytest.importorskip("ray", reason="Ray is not installed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_two_nodes_one_killed(tiny, tmp_path, weights):
    import ray
    from ray.cluster_utils import Cluster

    study = replace(tiny, training=replace(tiny.training, members_per_job=2))  # four training jobs instead of two
    local = study.run(tmp_path / "local", quiet=True)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    doomed = cluster.add_node(num_cpus=1)
    killed = []

    def kill_one_node():
        jobs = tmp_path / "ray" / "jobs"
        while not list(jobs.glob("train-*")):
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)
        killed.append(len(list(jobs.glob("train-*"))))

    killer = threading.Thread(target=kill_one_node, daemon=True)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        killer.start()
        result = study.run(tmp_path / "ray", executor="ray", address=cluster.address, quiet=True)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert killed
    assert killed[0] < 4  # the sweep was under way
    assert result.selection == local.selection
    assert weights(tmp_path / "ray") == weights(tmp_path / "local")
    jobs = [sorted(path.name for path in (tmp_path / where / "jobs").iterdir()) for where in ("ray", "local")]
    assert jobs[0] == jobs[1]
    assert json.loads((tmp_path / "ray" / "audit.json").read_text())["executor"] == "ray"


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
