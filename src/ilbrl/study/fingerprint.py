"""Policies in the hash of a job: by how they act, not by where they lie."""

from __future__ import annotations

import hashlib
from typing import Any

from ilbrl.policy import Policy


def fingerprint(policy: Any) -> str:
    """SHA-256 of what makes a policy act as it does."""
    assert isinstance(policy, Policy)
    digest = hashlib.sha256(repr((policy.head, policy.activation, policy.log_std_bounds, policy.mean_bound)).encode())
    layers = (array for layer in policy.layers for array in layer if array is not None)
    for array in (*layers, policy.action_low, policy.action_high):
        digest.update(array.tobytes())
    for array in (policy.obs_mean, policy.obs_std):
        digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()
