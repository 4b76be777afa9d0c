import fcntl
import json
import logging
import os
import resource
import signal

import pytest

from blazar.telemetry.audit import AuditLog


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def line(number):
    return json.dumps({"id": number}).encode() + b"\n"


def ids(path):
    return [json.loads(text)["id"] for text in path.read_bytes().splitlines() if text]


def older(path):
    return path.with_name("audit.jsonl.1")


def test_lines_are_appended_to_what_is_there_and_only_the_owner_reads_them(path):
    for number in (1, 2):
        audit = AuditLog(path)
        assert audit.write(line(number))
        audit.close()
    assert ids(path) == [1, 2]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_moves_aside_at_the_tick_and_never_before(path):
    audit = AuditLog(path, rotate_at=30)
    for number in range(5):
        audit.write(line(number))
    assert not older(path).exists()
    audit.tick()
    audit.tick()
    assert ids(older(path)) == [0, 1, 2, 3, 4] and ids(path) == []
    audit.write(line(5))
    assert ids(path) == [5]


def test_two_writers_rotate_once(path):
    first, second = AuditLog(path, rotate_at=30), AuditLog(path, rotate_at=30)
    for number in range(6):
        (first if number % 2 else second).write(line(number))
    first.tick()
    second.write(line(6))  # still on the moved file: nothing is lost
    second.tick()
    second.write(line(7))
    assert ids(older(path)) == [0, 1, 2, 3, 4, 5, 6] and ids(path) == [7]


def test_while_another_rotates_nothing_moves(path):
    audit = AuditLog(path, rotate_at=5)
    audit.write(line(1))
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        audit.tick()
        assert not older(path).exists()
    audit.tick()
    assert ids(older(path)) == [1]


@pytest.mark.parametrize("take_away", [lambda path: path.unlink(), lambda path: path.rename(path.with_suffix(".old"))])
def test_a_file_that_somebody_took_away_is_made_again(path, take_away):
    audit = AuditLog(path)
    audit.write(line(1))
    take_away(path)
    audit.tick()
    assert audit.write(line(2)) and ids(path) == [2]


def test_a_missing_folder_is_warned_of_once_and_found_when_it_is_there(tmp_path, caplog):
    path = tmp_path / "log" / "audit.jsonl"
    with caplog.at_level(logging.WARNING):
        audit = AuditLog(path)
        for _ in range(3):
            assert not audit.write(line(1))
            audit.tick()
    assert [record.getMessage() for record in caplog.records] == [
        f"no audit line can be written to {path}: No such file or directory; requests go on"]
    path.parent.mkdir()
    audit.tick()
    assert audit.write(line(2)) and ids(path) == [2]


def test_a_full_disk_costs_lines_but_no_request_and_whole_lines_follow(path):
    """RLIMIT_FSIZE stands for the full disk: first a part of a line fits, then nothing."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            audit = AuditLog(path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (25, resource.RLIM_INFINITY))
            said = [audit.write(line(number)) for number in (1, 2, 3, 4)]
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            code = 0 if said == [True, True, False, False] and audit.write(line(5)) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    whole = [text for text in path.read_bytes().splitlines() if text.endswith(b"}")]
    assert [json.loads(text)["id"] for text in whole] == [1, 2, 5]


def test_many_writers_that_rotate_at_once_lose_no_line(path):
    """They begin together with a file that is full, so all want to move it; and it moves once."""
    writers, each = 6, 200
    path.write_bytes(line(-1) * 100)
    reading, writing = os.pipe()
    pids = []
    for writer in range(writers):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                audit = AuditLog(path, rotate_at=1000)
                os.close(writing)
                os.read(reading, 1)  # until all are there
                for number in range(each):
                    assert audit.write(line(writer * each + number))
                    if number == 5:
                        audit.tick()
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(writing)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * writers
    os.close(reading)
    found = [number for file in (older(path), path) for number in ids(file) if number >= 0]
    assert sorted(found) == list(range(writers * each)), "not one is lost, torn, or there twice"
