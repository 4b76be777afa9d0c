"""What the tables' methods do."""

import pytest

from blazar.models.alias import Alias
from blazar.models.base import close_database, open_database
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
