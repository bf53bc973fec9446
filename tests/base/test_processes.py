"""The children evaluate expressions: `eval(shared, unit)` is a function any process can import."""

import itertools
import operator
import os
import pickle
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import ilbrl
from ilbrl.base.errors import IlbrlError
from ilbrl.base.processes import run_units


def test_results_come_in_order_however_long_each_takes():
    sleepy = "__import__('time').sleep(0.2 * (x == 0)) or x * x"
    assert list(run_units(eval, sleepy, [{"x": x} for x in range(6)], 3)) == [0, 1, 4, 9, 16, 25]


def test_units_may_be_endless_and_children_end_with_the_loop():
    with closing(run_units(eval, "__import__('os').getpid()", ({} for _ in itertools.count()), 2)) as results:
        children = {next(results) for _ in range(8)}
    assert os.getpid() not in children
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_what_cannot_travel_runs_here():
    assert list(run_units(lambda shared, unit: (shared + unit, os.getpid()), 1, [1, 2], 2)) == [
        (2, os.getpid()),
        (3, os.getpid()),
    ]


def test_children_use_one_thread_and_keep_their_answers_clean():
    talkative = "print('a library says hello') or __import__('os').environ['OPENBLAS_NUM_THREADS']"
    assert list(run_units(eval, talkative, [{}], 1)) == ["1"]


def test_an_error_in_a_child_is_an_error_here():
    with pytest.raises(IlbrlError, match="ZeroDivisionError: integer division or modulo by zero"):
        list(run_units(operator.floordiv, 1, [1, 0, 1], 2))


def test_code_a_child_cannot_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "passing_module.py").write_text("def double(shared, unit):\n    return 2 * unit\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        from passing_module import double  # pyright: ignore[reportMissingImports]

        assert list(run_units(double, None, [1, 2], 1)) == [2, 4]
    with pytest.raises(IlbrlError, match=r"cannot import the code it was sent.*passing_module"):
        list(run_units(double, None, [1], 1))


def test_children_find_what_their_parent_finds_and_nothing_in_the_current_folder(tmp_path):
    (tmp_path / "lying_around.py").write_text("")
    script = (
        "from ilbrl.base.processes import run_units\n"
        "print(*run_units(eval, \"__import__('importlib.util').util.find_spec('lying_around') is None\", [{}], 1))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(ilbrl.__file__).parents[1])}
    for flags, hidden in ((["-P"], "True"), ([], "False")):
        command = [sys.executable, *flags, "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.stdout.split() == [hidden], done.stderr


def test_a_killed_child_is_reported():
    with pytest.raises(IlbrlError, match="a worker process died"):
        list(run_units(os.kill, 0, [signal.SIGKILL], 1))  # process 0: the child's own group


def test_a_child_whose_parent_was_killed_goes_quietly():
    child = subprocess.Popen(
        [sys.executable, "-c", "from ilbrl.base.processes import serve; serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.close()
    job = pickle.dumps(pickle.dumps((operator.mul, 2)))
    _, said = child.communicate(job + pickle.dumps(3), timeout=20)
    assert said == b""


def test_no_workers_is_refused():
    with pytest.raises(IlbrlError, match="at least one"):
        next(run_units(operator.mul, 1, [1], 0))


def test_an_unguarded_script_works_and_ctrl_c_ends_it_at_once():
    script = """
from ilbrl.base.processes import run_units
for pid in run_units(eval, "__import__('os').getpid() if x < 2 else __import__('time').sleep(60)",
                     ({"x": x} for x in range(9)), 2):
    print(pid, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGINT)
        assert parent.wait(timeout=20) != 0  # its children would sleep for a minute
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
