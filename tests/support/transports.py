"""How children are reached: the parameters of tests that run with each way."""

import pytest

TRANSPORTS = ["tcp", pytest.param("unix", marks=pytest.mark.debian)]
"""For what the gateway says to a child: TCP on both ends of the suite, Unix sockets on one."""

BY_END = [pytest.param("tcp", marks=pytest.mark.slow), pytest.param("unix", marks=pytest.mark.debian)]
"""For whole daemons and the lives of their children: each end has the test, with one way.

Which way it is does not touch the packages, which are all that differs between the ends.
"""
