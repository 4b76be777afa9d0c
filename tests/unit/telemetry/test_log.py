import logging

import pytest

from blazar.telemetry import log


@pytest.fixture(autouse=True)
def root():
    before = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logging.getLogger().handlers[:] = before[0]
    logging.getLogger().setLevel(before[1])


def test_file_gets_all_from_its_level_and_the_terminal_warnings(tmp_path, capsys):
    log.set_up(tmp_path / "daemon.log", "info")
    for level in ("debug", "info", "warning"):
        getattr(logging.getLogger("x"), level)(f"a {level}")
    text = (tmp_path / "daemon.log").read_text()
    assert "a debug" not in text and "INFO x: a info" in text and "WARNING x: a warning" in text
    assert capsys.readouterr().err == "blazar: WARNING: a warning\n"


@pytest.mark.parametrize("level, number", [("debug", 10), ("TRACE", 10), ("warn", 30), ("off", 51), ("odd", 20)])
def test_levels(tmp_path, level, number):
    log.set_up(tmp_path / "daemon.log", level)
    assert logging.getLogger().level == number


def test_daemon_log_moves_to_its_1(tmp_path, monkeypatch):
    log.set_up(tmp_path / "daemon.log")
    for _ in range(12):
        logging.getLogger("x").info("y" * (1 << 20))
    assert (tmp_path / "daemon.log.1").stat().st_size <= log.ROTATE_AT
    assert (tmp_path / "daemon.log").stat().st_size <= log.ROTATE_AT


def test_output_of_a_child_is_rotated_too(tmp_path):
    output = log.OutputFile(tmp_path / "m.log")
    for number in range(25):
        output.write(bytes([number]) * (1 << 20))
    output.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.log", "m.log.1"]
    assert (tmp_path / "m.log").stat().st_size == 5 << 20
    assert (tmp_path / "m.log").read_bytes()[-1] == 24
    again = log.OutputFile(tmp_path / "m.log")
    again.write(b"end")
    again.close()
    assert (tmp_path / "m.log").stat().st_size == (5 << 20) + 3
