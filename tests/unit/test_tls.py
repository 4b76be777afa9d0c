"""Certificates and keys: what listens, what is trusted, and what is said when they are of no use."""

import os
import ssl
import subprocess
import sys

import pytest

from blazar.errors import CertificateRefused
from blazar.tls import client_context, server_context
from tests.support.certificates import certificate, locked


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def own(folder):
    return certificate(folder)


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Both sides agree in memory; the client's end."""
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(here, there, server_hostname="localhost"), server.wrap_bio(there, here, server_side=True)]
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    return ends[0]


def test_a_good_pair_is_offered_with_http_1_1(own):
    client = ssl.create_default_context(cafile=own.cert)
    client.set_alpn_protocols(["h2", "http/1.1"])
    agreed = shake(server_context(str(own.cert), str(own.key)), client)
    assert agreed.version() == "TLSv1.3" and agreed.selected_alpn_protocol() == "http/1.1"


def test_tls_1_2_is_the_oldest(own):
    server = server_context(str(own.cert), str(own.key))
    client = ssl.create_default_context(cafile=own.cert)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shake(server, client).version() == "TLSv1.2"
    assert server.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(("cert", "key", "words"), [
    ("{cert}", "{other}", "tls_key .*other.key cannot be used: it is not the key of tls_cert .*localhost.crt"),
    ("{chain}", "{key}", "it is not the key of tls_cert .*chain.crt; put the server's own certificate first"),
    ("{cert}", "{pipe}", "tls_key .*pipe cannot be used: it is no file, but a pipe"),
    ("{cert}", "a\0b", "tls_key .* cannot be used: embedded null byte"),
    ("{cert}", "{folder}/none", "tls_key .*/none cannot be used: No such file"),
    ("{folder}", "{key}", "tls_cert .* cannot be used: Is a directory"),
    ("{key}", "{key}", "tls_cert .*localhost.key cannot be used: it holds no certificate"),
    ("{cert}", "{cert}", "tls_key .*localhost.crt cannot be used: it holds no private key"),
    ("{cert}", "{locked}", "tls_key .*locked.key cannot be used: it is encrypted.*openssl pkey"),
    ("{broken}", "{key}", "tls_cert .*broken.crt cannot be used: with tls_key .*, OpenSSL says"),
])
def test_what_cannot_be_used_is_told_in_words(own, folder, cert, key, words):
    other = certificate(folder, "other")
    lines = own.cert.read_text().splitlines()
    (folder / "broken.crt").write_text("\n".join([*lines[:3], *lines[-1:]]))
    files = {"cert": own.cert, "key": own.key, "other": other.key, "folder": folder, "broken": folder / "broken.crt",
             "locked": locked(own.key, folder / "locked.key"), "pipe": folder / "pipe", "chain": folder / "chain.crt"}
    files["chain"].write_text(other.cert.read_text() + own.cert.read_text())
    if not files["pipe"].exists():
        os.mkfifo(files["pipe"])  # whoever opened it would wait for ever
    with pytest.raises(CertificateRefused, match=words) as refused:
        server_context(cert.format(**files), key.format(**files))
    secret = own.key.read_text().splitlines()[1]
    assert secret not in str(refused.value) and refused.value.exit_code == 2


def test_without_descriptors_it_is_refused_and_none_is_lost(own):
    code = ("import os, resource\n"
            "from blazar.errors import CertificateRefused\n"
            "from blazar.tls import read_pair\n"
            f"pair = read_pair({str(own.cert)!r}, {str(own.key)!r})\n"
            "pair.context()\n"
            "count = lambda: len(os.listdir('/proc/self/fd'))\n"
            "before = count()\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (before, before))\n"
            "for _ in range(3):\n"
            "    try: pair.context()\n"
            "    except CertificateRefused as error: print(error.message)\n"
            "print(count() == before)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("Too many open files") == 3 and done.stdout.endswith("True\n"), done.stderr


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_the_environment_names_who_is_trusted(own, name):
    server = server_context(str(own.cert), str(own.key))
    assert shake(server, client_context({name: str(own.cert)})).version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context({name: "/nonexistent"}))
