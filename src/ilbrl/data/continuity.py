"""Does each observation follow from the row before it?"""

from __future__ import annotations

import numpy as np

_ROWS_AT_ONCE = 65_536  # keeps the temporaries small on millions of rows


def jumps(observations: np.ndarray, next_observations: np.ndarray) -> np.ndarray:
    """[N] bool: row i's next observation is not the observation of row i + 1 (false on the last row).

    Equal up to float32 rounding counts as following; so do two NaNs.
    """
    jump = np.zeros(len(observations), bool)
    for start in range(0, len(observations) - 1, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, len(observations) - 1)
        reached, following = next_observations[start:stop], observations[start + 1 : stop + 1]
        different = np.flatnonzero((reached != following).any(1))  # almost always few: the slow test runs on these
        close = np.isclose(reached[different], following[different], rtol=1e-4, atol=1e-5, equal_nan=True)
        jump[start + different] = ~close.all(1)
    return jump
