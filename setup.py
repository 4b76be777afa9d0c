"""Everything stands in setup.cfg, but for one choice: with BLAZAR_COMPILED=1 the hot path is compiled into the wheel.

That takes a C compiler, and is meant for wheels alone: an editable install would leave its outcome among the sources.
"""

import os
import sys

from setuptools import setup

if os.environ.get("BLAZAR_COMPILED") == "1":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from tools.compiled.extensions import BuildAtOnce, extensions

    setup(setup_requires=["mypy"], ext_modules=extensions(), cmdclass={"build_ext": BuildAtOnce})
else:
    setup()
