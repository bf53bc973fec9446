"""Ranges as text: known values at known quantiles, and sentences for what makes no sense."""

import pytest

from ilbrl.base.errors import IlbrlError
from ilbrl.study.search import parse


@pytest.mark.parametrize(
    ("text", "u", "value"),
    [
        ("uniform(1, 4)", 0.5, 2.5),
        ("uniform(1e-5, 1e-4)", 0.0, 1e-5),
        ("loguniform(0.1, 10)", 0.5, 1.0),
        ("loguniform(3e-5, 3e-3)", 0.25, 3e-5 * 100**0.25),
        ("choice(2, 10, 16)", 0.34, 10),
        ("choice(kl, chi2)", 0.999, "chi2"),
        ("choice([8, 8], [16])", 0.0, (8, 8)),
        ("0.3", 0.9, 0.3),
        ("[64, 64]", 0.9, (64, 64)),
        ("bfloat16", 0.9, "bfloat16"),
        ("true", 0.1, True),
        ("none", 0.1, None),
    ],
)
def test_draws(text, u, value):
    assert parse(text).draw(u) == (pytest.approx(value) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("normal(0, 1)", "no distribution 'normal'"),
        ("uniform(4, 1)", "no larger than the second"),
        ("uniform(1)", "takes two numbers"),
        ("uniform(a, b)", "takes two numbers"),
        ("loguniform(0, 1)", "above 0"),
        ("choice()", "nothing to choose from"),
    ],
)
def test_refusals_name_the_field(text, said):
    with pytest.raises(IlbrlError, match=rf"search\.ranges\.ilbrl\.lam: .*{said}"):
        parse(text, "search.ranges.ilbrl.lam")
