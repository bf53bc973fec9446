"""Proofs by experiment: every lemma on random MDPs, and regret against data. `python -m ilbrl.tabular.experiments`."""
