"""Whoever sets what is not active is told what it waits for."""

from blazar.config.active import ACTIVE
from blazar.config.registry import declared
from blazar.config.waiting import WAITS, waiting, waits_for

INACTIVE = [path for path, _ in waiting(ACTIVE)]


def test_every_setting_and_field_that_is_not_active_says_why():
    assert [path for path in INACTIVE if waits_for(path) == "a later version"] == []


def test_nothing_waits_for_what_is_there():
    told = {waits_for(path) for path in INACTIVE}
    assert [what for what in WAITS if what not in told] == [], "take what is built out of blazar/config/waiting.py"


def test_the_table_names_only_what_is_declared():
    paths = [path for path, _ in declared()]
    for name in (name for names in WAITS.values() for name in names):
        assert name in paths or (name.endswith("*") and any(path.startswith(name[:-1]) for path in paths)), name


def test_a_field_waits_for_what_its_table_waits_for():
    assert waits_for("failover[].targets[].model") == waits_for("failover") == "failover chains"
    assert waits_for("model_overrides.<name>.sglang.tp_size") == waits_for("sglang") == "the SGLang lane"


def test_fields_are_listed_only_where_their_table_is_active():
    everything = frozenset(path for path, _ in declared())
    assert [path for path, _ in waiting(everything - {"keys[].weight"})] == ["keys[].weight"]
    assert [path for path, _ in waiting(everything - {"failover", "failover[].alias"})] == ["failover"]
    assert [path for path, _ in waiting(everything)] == []
