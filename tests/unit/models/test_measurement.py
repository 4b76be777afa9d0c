import pytest

from blazar.errors import DatabaseUnusable
from blazar.models.base import close_database, open_database
from blazar.models.measurement import KEPT, Measurement
from blazar.models.migrate import migrate

ROW = {"subject": "bench", "model": "m:q4_0", "digest": "d" * 64, "engine": "b1", "method": "llama-bench",
       "task": "generate", "tokens": 128, "rate": 12.5, "deviation": 0.25, "runs": 3, "conditions": "{}",
       "measured_at": "2026-01-02T03:04:05Z"}


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


def without_id(rows):
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


def test_figures_are_kept_the_newest_first():
    Measurement.add([ROW, {**ROW, "task": "prompt"}])
    Measurement.add([{**ROW, "rate": 13.0}, {**ROW, "digest": "e" * 64}, {**ROW, "subject": "tuning"}])
    assert without_id(Measurement.of("d" * 64, "bench")) == [{**ROW, "rate": 13.0}, {**ROW, "task": "prompt"}, ROW]
    assert len(Measurement.of("e" * 64, "bench")) == len(Measurement.of("d" * 64, "tuning")) == 1


def test_a_batch_is_noted_whole_or_not_at_all():
    with pytest.raises(DatabaseUnusable):
        Measurement.add([ROW, {"model": "m", "digest": "d" * 64, "subject": "bench"}])
    assert Measurement.of("d" * 64, "bench") == []


def test_the_oldest_go():
    Measurement.add([{**ROW, "digest": "e" * 64}, *({**ROW, "tokens": number} for number in range(KEPT + 5))])
    kept = [row["tokens"] for row in Measurement.of("d" * 64, "bench")]
    assert kept == list(range(KEPT + 4, 4, -1)) and len(Measurement.of("e" * 64, "bench")) == 1
