"""The folder from which the processes that a test starts import Blazar."""

import os
from pathlib import Path

import blazar

TREE = Path(os.environ.get("BLAZAR_TREE") or Path(blazar.__file__).parent.parent)
"""The checkout, unless the environment names another: `test_compiled.py` does, for the compiled copy."""
