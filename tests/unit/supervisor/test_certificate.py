"""The pair of certificate and key: looked at once a minute, by a clock of the test's."""

import os
import shutil

import pytest

from blazar.errors import CertificateRefused
from blazar.supervisor.certificate import LOOK, Certificate, read
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool
from blazar.supervisor.workers import Workers
from tests.support.certificates import certificate


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Bench:
    def __init__(self, folder):
        self.clock = Clock()
        self.loop = Loop(self.clock)
        self.pairs = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            self.pairs.append(certificate(folder / name))
        self.cert, self.key = folder / "crt", folder / "key"
        self.put(0)
        pool = Pool(self.loop, 1)  # one thread, so what is submitted last ends last
        self.certificate = Certificate(self.loop, pool, Workers(self.loop), str(self.cert), str(self.key))
        self.certificate.watch()
        self.settle()

    def put(self, cert=None, key=None):
        for number, target, name in ((cert, self.cert, "cert"), (cert if key is None else key, self.key, "key")):
            shutil.copy(getattr(self.pairs[number], name), target)
            os.utime(target, ns=(0, int(self.clock.now * 1e9) + number + 1))

    def settle(self):
        """Until all that was submitted has ended, and was heard of."""
        done = []
        self.certificate._pool.submit(lambda *_: done.append(True), bool)
        for _ in range(2000):
            if done:
                return
            self.loop.turn(0.01)
        raise AssertionError("the threads do not end")

    def minute(self):
        self.clock.now += LOOK
        self.loop.turn(0.0)
        self.settle()

    @property
    def told(self):
        return self.certificate.told()["chain"]

    def chain(self, number):
        return self.pairs[number].cert.read_text()


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_files_that_change_are_taken_by_themselves(bench, caplog):
    assert bench.told == bench.chain(0) and bench.certificate.scheme == "https"
    bench.minute()
    assert bench.told == bench.chain(0)
    bench.put(1)
    bench.minute()
    assert bench.told == bench.chain(1)


def test_a_pair_that_does_not_fit_is_told_once_and_tried_again(bench, caplog):
    bench.put(1, 0)
    bench.minute()
    bench.minute()
    assert bench.told == bench.chain(0)
    assert caplog.text.count("it is not the key of tls_cert") == 1
    bench.put(1)
    bench.minute()
    assert bench.told == bench.chain(1)
    bench.key.unlink()
    bench.minute()
    assert bench.told == bench.chain(1) and "No such file" in caplog.text


def test_files_that_change_while_a_reload_has_read_them_are_taken_too(bench):
    found = read(str(bench.cert), str(bench.key))
    bench.put(1)
    assert bench.certificate.take(found) == "kept" and bench.told == bench.chain(0)
    bench.minute()
    assert bench.told == bench.chain(1)


def test_the_first_one_has_to_be_good(bench):
    bench.put(1, 0)
    with pytest.raises(CertificateRefused):
        Certificate(bench.loop, Pool(bench.loop), Workers(bench.loop), str(bench.cert), str(bench.key))
    without = Certificate(bench.loop, Pool(bench.loop), Workers(bench.loop), "", "")
    assert without.told() is None and without.scheme == "http"
