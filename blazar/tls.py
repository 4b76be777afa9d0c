"""TLS contexts: the one with which the gateway listens, and the one with which a verb asks a daemon.

`ssl` is imported by those who call: a gateway without TLS never pays for it, and gunicorn's master must not have
imported it before the standard library is patched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.errors import CertificateRefused
from blazar.paths import open_file

if TYPE_CHECKING:
    import ssl

BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Variables that name a file of certificates to trust; OpenSSL reads the first by itself."""
LARGEST = 1 << 20
"""Bytes of the largest file of certificates or keys that is read."""
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_KEY = "PRIVATE KEY-----"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key as they were read from two files: what is looked at is then what is used, whatever
    becomes of the files meanwhile."""

    cert: str
    """The file of `tls_cert`."""
    key: str
    chain: str
    """What it held, in PEM form."""
    secret: str

    def context(self) -> ssl.SSLContext:
        """For listening with them; TLS 1.2 at least. Raises CertificateRefused."""
        import ssl
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        self._look()
        try:
            with _in_memory(self.chain) as chain, _in_memory(self.secret) as secret:
                context.load_cert_chain(chain, secret, password=lambda: "")  # never asked for on a terminal
        except (ssl.SSLError, ValueError) as error:
            raise self._refused(getattr(error, "reason", None) or "unreadable") from None
        except OSError as error:
            raise CertificateRefused(file=self.cert, setting="tls_cert", reason=error.strerror or str(error),
                                     remedy="raise the limit on open files (`ulimit -n`)") from None
        return context

    def _refused(self, reason: str) -> CertificateRefused:
        if "MISMATCH" in reason:
            first = "put the server's own certificate first in it, or " if self.chain.count(_CERTIFICATE) > 1 else ""
            return CertificateRefused(file=self.key, setting="tls_key", remedy=f"{first}name the key that this "
                                      "certificate was made for", reason=f"it is not the key of tls_cert {self.cert}")
        return CertificateRefused(file=self.cert, setting="tls_cert",
                                  reason=f"with tls_key {self.key}, OpenSSL says {reason}",
                                  remedy="check both with `openssl x509 -in` and `openssl pkey -in`")

    def _look(self) -> None:
        """Say what can be said better than OpenSSL does. Nothing of the files is ever told."""
        if _CERTIFICATE not in self.chain:
            raise CertificateRefused(file=self.cert, setting="tls_cert", reason="it holds no certificate in PEM form",
                                     remedy=f"name a file with a line {_CERTIFICATE}")
        if _KEY not in self.secret:
            raise CertificateRefused(file=self.key, setting="tls_key", reason="it holds no private key in PEM form",
                                     remedy=f"name a file with a line that ends in {_KEY}")
        if "ENCRYPTED" in self.secret:
            raise CertificateRefused(file=self.key, setting="tls_key", reason="it is encrypted, and nobody can unlock "
                                     "it", remedy="write an open one with `openssl pkey -in FILE -out NEW`")


def read_pair(cert: str, key: str) -> Pair:
    """What the files of `tls_cert` and `tls_key` hold now; nothing is looked at yet. Raises CertificateRefused."""
    return Pair(cert, key, _read("tls_cert", cert), _read("tls_key", key))


def server_context(cert: str, key: str) -> ssl.SSLContext:
    """For listening with the PEM files of `tls_cert` and `tls_key`. Raises CertificateRefused."""
    return read_pair(cert, key).context()


def client_context(env: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """For asking a server whose certificate the system, or a file named in the environment, vouches for."""
    import ssl
    context = ssl.create_default_context()
    for name in BUNDLES:
        if env.get(name) and Path(env[name]).is_file():
            context.load_verify_locations(env[name])
    return context


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """The path of a file that lies nowhere, since OpenSSL reads keys from files only. Raises OSError."""
    with open(os.memfd_create("pem"), "wb") as file:
        file.write(text.encode("latin-1"))
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _read(setting: str, file: str) -> str:
    try:
        with open_file(file) as opened:
            found = opened.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise CertificateRefused(file=file, setting=setting, reason="it is larger than a MiB",
                                     remedy="name a file of certificates or keys in PEM form")
        return found.decode("latin-1")
    except (OSError, ValueError) as error:
        raise CertificateRefused(file=file, setting=setting, reason=getattr(error, "strerror", None) or str(error),
                                 remedy="correct the path, or let the user that runs Blazar read it") from None
