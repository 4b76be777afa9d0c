"""How children are reached: the parameters of tests that run with each way."""

import pytest

TRANSPORTS = ["tcp", pytest.param("unix", marks=pytest.mark.debian)]
"""TCP on both ends of the suite, Unix sockets on one: what they do differently is not in the packages."""
