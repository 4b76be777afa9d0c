"""What the tables' methods do."""

import pytest

from blazar.models.alias import Alias
from blazar.models.base import close_database, open_database
from blazar.models.engine import Engine
from blazar.models.installed_model import InstalledModel
from blazar.models.migrate import migrate

ROW = {"name": "solo:q4_0", "digest": "d" * 64, "size": 1 << 40, "facts": "{}", "source": "a file",
       "license": None, "parameters": None, "template": None, "installed_at": "2026-01-02T03:04:05Z", "files": None,
       "system": None, "messages": None}


@pytest.fixture(autouse=True)
def opened(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


def test_installed_models():
    InstalledModel.put(**ROW)
    InstalledModel.put(**{**ROW, "name": "m:q4_0"})
    assert InstalledModel.names() == ["m:q4_0", "solo:q4_0"]
    assert InstalledModel.find("solo:q4_0") == ROW
    assert InstalledModel.find("solo") is None
    assert InstalledModel.uses("d" * 64) == 2
    InstalledModel.put(**{**ROW, "digest": "e" * 64, "license": "mit"})
    assert [row["license"] for row in InstalledModel.every()] == [None, "mit"]
    assert InstalledModel.uses("d" * 64) == 1
    InstalledModel.forget("m:q4_0")
    assert InstalledModel.names() == ["solo:q4_0"] and InstalledModel.uses("d" * 64) == 0


def test_aliases():
    Alias.put("a", "m:q4_0")
    Alias.put("b", "m:q4_0")
    Alias.put("a", "solo:q4_0")
    assert Alias.targets() == {"a": "solo:q4_0", "b": "m:q4_0"}
    assert Alias.forget("a") is True and Alias.forget("a") is False
    Alias.forget_target("m:q4_0")
    assert Alias.targets() == {}


BUILD = {"kind": "llamacpp", "tag": "b1", "path": "engines/b1/llama-server", "flavour": "cpu", "source": "a release",
         "sha256": "e" * 64, "installed_at": "2026-01-02T03:04:05Z", "active": False, "pinned": False, "turn": 0}


def test_engine_builds():
    for tag in ("b2", "b1"):
        Engine.put(**{**BUILD, "tag": tag})
    Engine.put(**{**BUILD, "kind": "sdcpp"})
    assert [(row["kind"], row["tag"]) for row in Engine.every()] == [("llamacpp", "b1"), ("llamacpp", "b2"),
                                                                   ("sdcpp", "b1")]
    assert [row["tag"] for row in Engine.every("sdcpp")] == ["b1"]
    assert Engine.find("llamacpp", "b1") == BUILD and Engine.find("llamacpp", "b3") is None
    assert Engine.forget("sdcpp", "b1") is True and Engine.forget("sdcpp", "b1") is False
    assert len(Engine.every()) == 2


def test_one_build_of_a_kind_is_in_use_and_a_rollback_knows_the_one_before():
    for tag in ("b1", "b2", "b3"):
        Engine.put(**{**BUILD, "tag": tag})
    Engine.put(**{**BUILD, "kind": "sdcpp", "active": True})
    assert Engine.in_use("llamacpp") is None and Engine.before("llamacpp") is None
    for tag in ("b1", "b3", "b2"):
        assert Engine.activate("llamacpp", tag) is True
    assert Engine.activate("llamacpp", "b9") is False
    assert Engine.in_use("llamacpp")["tag"] == "b2" and Engine.before("llamacpp")["tag"] == "b3"
    assert [row["tag"] for row in Engine.every("llamacpp") if row["active"]] == ["b2"]
    assert Engine.in_use("sdcpp")["tag"] == "b1"
    Engine.forget("llamacpp", "b3")
    assert Engine.before("llamacpp")["tag"] == "b1"


def test_a_pinned_build():
    Engine.put(**BUILD)
    assert Engine.pin("llamacpp", "b1", True) is True and Engine.pin("llamacpp", "b2", True) is False
    assert Engine.find("llamacpp", "b1")["pinned"] is True
