"""Whom a setting concerns, held against what the code reads."""

from pathlib import Path

import blazar
from blazar.config.config import Config
from blazar.config.reach import FIXED, GATEWAY, TOLD, changed, of_gateway
from blazar.config.registry import SETTINGS
from tools.reference import scan


def test_all_that_the_gateway_reads_is_known():
    read = scan(Path(blazar.__file__).parent / "proxy").settings & set(SETTINGS)
    assert read - FIXED == GATEWAY | TOLD


def test_what_changes_for_the_gateway():
    plain = Config.from_dict({}).as_dict()

    def differs(**settings):
        return of_gateway(Config.from_dict(settings).as_dict()) != of_gateway(plain)

    assert differs(max_queued=3) and differs(cors_origins=["*"]) and differs(engine_env={"LLAMA_ARG_TOOLS": "all"})
    assert differs(model_overrides={"m": {"replicas": 2}}) and differs(tls_cert="/etc/a", tls_key="/etc/b")
    assert not differs(default_ctx=3) and not differs(model_overrides={"m": {"ctx": 2}})
    assert not differs(keys=[{"name": "a", "key": "b"}]) and not differs(max_loaded_models=2)
    assert changed(plain, {**plain, "port": 1, "preload": ["m"]}) == ["port", "preload"]


def test_what_only_a_restart_changes_stays():
    now, fresh = Config.from_dict({"port": 1}), Config.from_dict({"port": 2, "max_queued": 3})
    both = fresh.keeping(now, FIXED)
    assert (both.port, both.max_queued, both.origin("max_queued")) == (1, 3, "flag")
