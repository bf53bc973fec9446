"""`ilbrl bounds` on the command line."""

import json

import pytest

from ilbrl.cli import main


def words_of(numbers):
    return [word for pair in numbers.items() for word in pair]


NUMBERS = {
    "--states": "20",
    "--actions": "4",
    "--epsilon": "0.1",
    "--delta": "0.05",
    "--expert-mixing-time": "5",
    "--explorer-mixing-time": "8",
    "--p-min": "0.005",
    "--beta": "3",
    "--lambda2": "0.8",
}
KNOWN = words_of(NUMBERS)


def run(capsys, *words):
    code = main(["bounds", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_holds_every_quantity_exactly(capsys):
    code, out, _ = run(capsys, *KNOWN, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["ell"] == 221188
    assert answer["N"] == 242417
    assert answer["expert_samples"] == 564_480_000
    assert answer["logs_samples"] == answer["N"] * answer["m"] * answer["ell"]
    assert answer["gamma"] == pytest.approx(0.99992060971737)
    assert answer["log10"]["m"] == pytest.approx(24.490, abs=1e-3)
    assert {"eta", "eta_prime", "nu", "N_corrected", "simplified_ell", "logs_order"} <= answer.keys()


def test_kappa_and_reward_norm_make_beta(capsys):
    words = words_of({name: value for name, value in NUMBERS.items() if name != "--beta"})
    _, out, _ = run(capsys, *words, "--kappa", "2", "--reward-norm", "1.5", "--json")
    assert json.loads(out)["inputs"]["beta"] == 3
    _, out, _ = run(capsys, *words, "--kappa", "2", "--json")
    assert json.loads(out)["inputs"]["beta"] == pytest.approx(2 * 20**0.5)


@pytest.mark.parametrize("name", ["garnet:20x4", "riverswim:6", "FrozenLake-v1"])
def test_quantities_computed_from_an_mdp(capsys, name):
    code, out, _ = run(capsys, "--mdp", name)
    assert code == 0
    assert "|D_X| corrected" in out


def test_counts_too_large_for_json_readers_become_logarithms(capsys):
    code, out, _ = run(capsys, *words_of(NUMBERS | {"--beta": "1e200"}), "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["m"] is None
    assert answer["log10"]["m"] > 800


def test_backwards(capsys):
    code, out, _ = run(capsys, *KNOWN, "--expert-samples", "564480000", "--logs-samples", "1e50", "--json")
    assert code == 0
    assert json.loads(out)["epsilon"] == pytest.approx(0.1, rel=1e-4)
    code, out, _ = run(capsys, *KNOWN, "--expert-samples", "1000", "--logs-samples", "1000")
    assert code == 1
    assert "guarantee nothing" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--states"),
        ([*KNOWN, "--epsilon", "2"], "ε"),
        ([*KNOWN, "--delta", "0"], "δ"),
        ([*KNOWN, "--lambda2", "1"], "Assumption 2"),
        ([*KNOWN, "--p-min", "0.5"], "Assumption 3"),
        (["--mdp", "CliffWalking-v1"], "Assumption 4"),
        (["--mdp", "atlantis:3"], "atlantis"),
        ([*KNOWN, "--kappa", "2"], "not both"),
        ([*KNOWN, "--expert-samples", "10"], "both"),
        ([*KNOWN, "--expert-samples", "inf", "--logs-samples", "10"], "finite"),
        ([*KNOWN, "--expert-samples", "nan", "--logs-samples", "10"], "finite"),
        ([*KNOWN, "--p-min", "1e-320"], "at least 1e-300"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, words, says):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


def test_help_teaches_by_example(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["bounds", "--help"])
    assert exit_.value.code == 0
    assert "ilbrl bounds --mdp riverswim:6" in capsys.readouterr().out
