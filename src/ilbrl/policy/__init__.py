"""The deployable policy: one file, NumPy alone. What users import is `Policy`; `Layer` and `Guard` belong to it.

`policy.py` acts with the network of `network.py`, `validation.py` says what must fit together, `file.py` reads and
writes, `committee.py` makes one policy of several, `guard.py` watches over observations where a policy is deployed,
`export_onnx.py` and `export_c.py` write it for programs without Python.
"""

from ilbrl.policy.committee import committee_of
from ilbrl.policy.guard import Guard
from ilbrl.policy.network import Head, Layer
from ilbrl.policy.policy import Policy

__all__ = ["Guard", "Head", "Layer", "Policy", "committee_of"]
