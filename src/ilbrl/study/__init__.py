"""Algorithm 2: from logs to a selected policy with no environment in the loop, then one honest evaluation.

study         what decides everything: dataclasses ↔ TOML (`toml`), presets
ranges        distributions as text; `search`: random search over them; `values`: what a setting can be
logs          read, examine, split; `description`: data.json
jobs          pure functions addressed by the hash of their inputs; `kinds/`: what they do; `executors/`: who does them
selection     which configuration wins, from offline values alone
run           the phases, and all of them in one call
folder, tables, audit, narration      the run folder (docs/runs.md)
"""

from ilbrl.study.study import Study

__all__ = ["Study"]
