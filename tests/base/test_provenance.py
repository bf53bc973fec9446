from ilbrl.base import provenance


def test_a_copy_without_history_can_be_told_its_commit(monkeypatch):
    monkeypatch.setenv("ILBRL_COMMIT", "abc1234")
    assert provenance.commit.__wrapped__() == "abc1234"
    monkeypatch.delenv("ILBRL_COMMIT")
    monkeypatch.setattr(provenance, "__file__", "/nowhere/provenance.py")
    assert provenance.commit.__wrapped__() is None


def test_versions_name_what_can_change_a_number():
    assert {"ilbrl", "jax", "numpy", "optax"} <= set(provenance.versions())
