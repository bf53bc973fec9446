"""With which setting `ilbrl evaluate` estimates, and whether the verdict of a tuning is about that setting."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ilbrl import ope
from ilbrl.base.errors import IlbrlError


class Evaluator(NamedTuple):
    """A setting, and what its tuning says about it."""

    setting: ope.Setting
    updates: int  # that the known policies needed
    trust: dict[str, Any] | None = None  # as in tuning.json; None: untuned, or tuned otherwise
    trust_withheld: str | None = None  # why a tuning's verdict is not passed on
    distance_limit: float = math.inf
    logs: dict[str, str] | None = None  # content hashes of the logs it was tuned on, where recorded

    @staticmethod
    def chosen_by(tuning: dict[str, Any]) -> Evaluator:
        """What a tuning.json describes."""
        setting = ope.Setting.from_dict(tuning["configurations"][tuning["chosen"]])
        trust = {name: tuning["trust"][name] for name in ("verdict", "reasons", "distance_limit")}
        limit = math.inf if trust["distance_limit"] is None else float(trust["distance_limit"])
        return Evaluator(setting, int(tuning["updates"]), trust, distance_limit=limit, logs=tuning.get("logs"))

    @staticmethod
    def read(path: Path) -> Evaluator:
        """What an earlier tuning chose."""
        try:
            return Evaluator.chosen_by(json.loads(path.read_text()))
        except FileNotFoundError:
            raise IlbrlError(f"{path}: no such file; `ilbrl evaluate --tune … --out FOLDER` writes one") from None
        except (IlbrlError, ValueError, KeyError, IndexError, TypeError) as error:
            raise IlbrlError(f"{path}: not a tuning.json of ilbrl ({error})") from None

    def adjusted(
        self, logs: dict[str, str], hidden: tuple[int, ...] | None, dtype: str | None, updates: int | None
    ) -> Evaluator:
        """This evaluator, but for what is asked; its verdict stays only where the known policies were valued alike.

        More updates than they needed take nothing from it. The distance limit is about policies and data, not critics.
        """
        tuned, other = self.setting.config, sized(self.setting, hidden, dtype)
        asked = self._replace(setting=other, updates=updates or self.updates)
        changed = {name: (getattr(tuned, name), getattr(other.config, name)) for name in ("hidden", "dtype")}
        departures = [
            f"{name} {_plain(now)}, not {_plain(then)}" for name, (then, now) in changed.items() if now != then
        ]
        if asked.updates < self.updates:
            departures.append(f"{asked.updates} updates, not {self.updates}")
        departures += [f"another --{name}" for name, hash in logs.items() if (self.logs or logs).get(name) != hash]
        if self.trust is None or not departures:
            return asked
        withheld = (
            f"the tuning's verdict belongs to another setting: here {' and '.join(departures)};"
            " how far to trust these numbers is unknown until --tune with the same options says so"
        )
        return asked._replace(trust=None, trust_withheld=withheld)


UNTUNED = Evaluator(ope.Setting(0.5, ope.Config(lr=3e-4, target_update_every=2.0), informed_start=True), 100_000)


def sized(setting: ope.Setting, hidden: tuple[int, ...] | None, dtype: str | None) -> ope.Setting:
    """The setting with the networks that are asked for."""
    asked = {name: value for name, value in (("hidden", hidden), ("dtype", dtype)) if value is not None}
    return replace(setting, config=replace(setting.config, **asked))


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
