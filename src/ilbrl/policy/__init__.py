"""The deployable policy: one file, NumPy alone. What users import is `Policy`; `Layer` and `Guard` are its company.

`policy.py` acts, `file.py` reads and writes, `guard.py` watches over observations where a policy is deployed,
`export_onnx.py` and `export_c.py` write it for programs without Python.
"""

from ilbrl.policy.guard import Guard
from ilbrl.policy.policy import Head, Layer, Policy

__all__ = ["Guard", "Head", "Layer", "Policy"]
