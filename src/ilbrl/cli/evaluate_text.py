"""What `ilbrl evaluate` prints."""

from __future__ import annotations

from typing import Any


def as_text(result: dict[str, Any]) -> str:
    """Tuning and evaluation, as far as they were done."""
    lines = []
    if "tuning" in result:
        tuning = result["tuning"]
        chosen = tuning["configurations"][tuning["chosen"]]
        lines += [
            f"chose setting {tuning['chosen']} of {len(tuning['configurations'])}: expert fraction"
            f" {chosen['expert_fraction']:g}, lr {chosen['lr']:g}, targets every {chosen['target_update_every']:g}",
            f"  {'known policy':<24}{'estimate':>12}{'truth':>12}   verdict",
            *(
                f"  {name:<24}{_number(entry['estimate']):>12}{_number(entry['truth']):>12}   {entry['verdict']}"
                for name, entry in chosen["policies"].items()
            ),
            *_trust_lines(tuning["trust"]),
        ]
    if "evaluation" in result:
        found = result["evaluation"]
        lines.append(f"{'policy':<40}{'value':>10}{'95 % interval':>22}{'distance':>10}   verdict")
        for name, entry in found["policies"].items():
            interval = "{:.4g} … {:.4g}".format(*entry["interval"]) if entry["interval"] else "–"
            lines.append(
                f"{name:<40}{_number(entry['value']):>10}{interval:>22}{entry['distance']:>10.2f}   {entry['verdict']}"
            )
        lines += [f"note: {note}" for note in found["notes"]]
        if found["distance_warning"]:
            lines.append(f"warning: {found['distance_warning']}")
        if found["trust_withheld"]:
            lines.append(found["trust_withheld"])
        elif found["trust"] is None:
            lines.append("untuned settings: how far to trust these numbers is unknown until --tune --known … says so")
        elif "tuning" not in result:
            lines += _trust_lines(found["trust"])
    return "\n".join(lines)


def _trust_lines(trust: dict[str, Any]) -> list[str]:
    verdict = {"trust": "trust it", "care": "use with care", "distrust": "do not trust it"}[trust["verdict"]]
    return [f"{verdict}:", *(f"  {reason}" for reason in trust["reasons"])]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
