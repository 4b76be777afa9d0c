import logging
import os
import shutil
import subprocess
import sys

import pytest

from blazar.telemetry import log


@pytest.fixture(autouse=True)
def root():
    before = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logging.getLogger("blazar").setLevel(logging.NOTSET)
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
    assert logging.getLogger("blazar.x").getEffectiveLevel() == number


def test_libraries_stay_silent_below_info(tmp_path):
    log.set_up(tmp_path / "daemon.log", "debug")
    logging.getLogger("blazar.x").debug("ours")
    logging.getLogger("peewee").debug("SELECT secret")
    logging.getLogger("peewee").info("theirs")
    assert [line.rpartition(": ")[2] for line in (tmp_path / "daemon.log").read_text().splitlines()] == [
        "ours", "theirs"]


def test_daemon_log_moves_to_its_1(tmp_path, monkeypatch):
    log.set_up(tmp_path / "daemon.log")
    for _ in range(12):
        logging.getLogger("x").info("y" * (1 << 20))
    assert (tmp_path / "daemon.log.1").stat().st_size <= log.ROTATE_AT
    assert (tmp_path / "daemon.log").stat().st_size <= log.ROTATE_AT


def test_only_its_owner_reads_the_daemon_log(tmp_path):
    before = os.umask(0)
    try:
        log.set_up(tmp_path / "daemon.log")
        for _ in range(12):
            logging.getLogger("x").info("y" * (1 << 20))
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    assert len(list(tmp_path.iterdir())) == 2


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


def test_output_whose_folder_is_gone_closes_nothing_twice(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    output = log.OutputFile(folder / "m.log")
    output.write(bytes(log.ROTATE_AT))
    shutil.rmtree(folder)
    descriptors = []
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            output.write(b"more")
        descriptors.append(os.open(os.devnull, os.O_RDONLY))  # takes a number that was wrongly freed
    for descriptor in descriptors:
        os.close(descriptor)
    folder.mkdir()
    output.write(b"again")
    output.close()
    assert (folder / "m.log").read_bytes() == b"again"


def test_full_disk_costs_lines_and_no_tracebacks(tmp_path):
    code = ("import logging, resource, signal, sys; from pathlib import Path; from blazar.telemetry import log\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); log.set_up(Path(sys.argv[1]))\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); logging.getLogger('x').warning('careful')")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "daemon.log")], capture_output=True, text=True)
    assert done.stderr == "blazar: WARNING: careful\n"


@pytest.mark.timeout(20)
def test_a_pipe_that_nobody_reads_halts_nobody(tmp_path, monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as other:
        monkeypatch.setattr(sys, "stderr", stream)
        log.set_up(tmp_path / "daemon.log")
        for number in range(100):
            logging.warning("%d %s", number, "é" * 3000)
        lines = (tmp_path / "daemon.log").read_text().splitlines()
        assert len(lines) == 100 and lines[-1].endswith("é")
        shown = other.read1(1 << 20)
        assert shown.startswith("blazar: WARNING: 0 é".encode()) and len(shown) <= 1 << 16
        logging.warning("it is read again")
        assert other.read1(1 << 20) == b"blazar: WARNING: it is read again\n"
