"""Containers: memory that the machine has and this process may not take."""

import os
from types import SimpleNamespace

import pytest

from ilbrl.learning import memory

V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
NO_LIMIT = "9223372036854771712"  # as version 1 says it


def grouped(root, own, files):
    """A system whose process is in the control groups `own`; files: name → content."""
    for name, content in {"proc/self/cgroup": own, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def stat(kind, inactive):
    return f"anon 5\n{kind} {inactive}\nslab 7\n"


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {f"{V2}/memory.max": "1000\n", f"{V2}/memory.current": "300\n"}, [(1000, 300)]),
        (  # pages of files that were read are no loss
            "0::/\n",
            {
                f"{V2}/memory.max": "1000\n", f"{V2}/memory.current": "900\n",
                f"{V2}/memory.stat": stat("inactive_file", 400),
            },
            [(1000, 500)],
        ),
        (  # the groups around a group limit it too
            "0::/jobs.slice/mine\n",
            {
                f"{V2}/jobs.slice/memory.max": "2000", f"{V2}/jobs.slice/memory.current": "1500",
                f"{V2}/jobs.slice/mine/memory.max": "max", f"{V2}/jobs.slice/mine/memory.current": "100",
            },
            [(2000, 1500)],
        ),
        (  # inside Docker the path is the host's, and its files are those of the first group
            "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
            {
                f"{V1}/memory.limit_in_bytes": "800\n", f"{V1}/memory.usage_in_bytes": "500\n",
                f"{V1}/memory.stat": stat("total_inactive_file", 100),
            },
            [(800, 400)],
        ),
        ("0::/../other\n", {f"{V2}/memory.max": "70", f"{V2}/memory.current": "9"}, [(70, 9)]),
        ("0::/\n", {f"{V2}/memory.max": "max\n"}, []),
        ("3:cpu:/\n", {f"{V2}/memory.max": "70"}, []),
    ],
)  # fmt: skip
def test_limits_of_control_groups(tmp_path, own, files, expected):
    assert list(memory.limits(grouped(tmp_path, own, files))) == expected


def test_other_systems_have_none(tmp_path):
    assert list(memory.limits(tmp_path)) == []


def test_the_smallest_of_machine_and_containers_is_what_there_is(tmp_path, monkeypatch):
    root = grouped(
        tmp_path, "4:memory:/\n0::/\n",
        {
            f"{V1}/memory.limit_in_bytes": NO_LIMIT, f"{V2}/memory.max": "8000000", f"{V2}/memory.current": "2000000",
        },
    )  # fmt: skip
    limits = memory.limits
    monkeypatch.setattr(memory, "limits", lambda: limits(root))
    without_memory_of_its_own = SimpleNamespace(memory_stats=lambda: None)  # a CPU
    for devices in (1, 3):
        monkeypatch.setattr("jax.local_devices", lambda n=devices: [without_memory_of_its_own] * n)
        assert memory.available() == 6_000_000 // devices
    assert memory.room_for_rows() == 4_000_000
    (root / V2 / "memory.current").write_text("9000000")  # it happens for a moment
    assert memory.available() == 0
    (root / V2 / "memory.max").write_text("max")
    assert memory.room_for_rows() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
