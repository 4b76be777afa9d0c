"""How children are reached: the parameters of tests that run with each way."""

import pytest

BOTH = ["tcp", "unix"]
"""For what the gateway says to a child, where that takes a second or two: both ways on both ends of the suite."""

TRANSPORTS = ["tcp", pytest.param("unix", marks=pytest.mark.debian)]
"""The same, where it takes longer: TCP on both ends, Unix sockets on one."""

BY_END = [pytest.param("tcp", marks=pytest.mark.slow), pytest.param("unix", marks=pytest.mark.debian)]
"""For whole daemons and the lives of their children: each end has the test, with one way.

Which way it is does not touch the packages, which are all that differs between the ends.
"""
