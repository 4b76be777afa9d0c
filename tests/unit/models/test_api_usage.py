import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.models.migrate import migrate


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


def row(key, day, requests, prompt, completion, model="m:q4_0"):
    return {"key": key, "day": day, "model": model, "requests": requests, "prompt_tokens": prompt, "completion_tokens": completion}


def test_counts_add_up_by_key_and_day():
    ApiUsage.add([row("ann", "2026-01-01", 1, 2, 3), row("bob", "2026-01-01", 1, 1, 1)])
    ApiUsage.add([row("ann", "2026-01-01", 10, 20, 30), row("ann", "2026-01-02", 1, 2**40, 5)])
    ApiUsage.add([row("ann", "2026-01-01", 1, 1, 1, "n:q8_0")])
    assert ApiUsage.since("") == [row("ann", "2026-01-01", 11, 22, 33), row("ann", "2026-01-01", 1, 1, 1, "n:q8_0"),
                                  row("ann", "2026-01-02", 1, 2**40, 5), row("bob", "2026-01-01", 1, 1, 1)]
    assert ApiUsage.since("2026-01-02") == [row("ann", "2026-01-02", 1, 2**40, 5)]
    assert ApiUsage.keys() == ["ann", "bob"]
    assert ApiUsage.of_day("2026-01-01") == {"ann": 57, "bob": 2}
    assert ApiUsage.of_day("2026-01-03") == {}


def test_a_report_is_noted_whole_or_not_at_all():
    with pytest.raises(KeyError):
        ApiUsage.add([row("ann", "2026-01-01", 1, 2, 3), {"key": "bob", "day": "2026-01-01", "model": ""}])
    assert ApiUsage.since("") == []
