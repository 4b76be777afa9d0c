"""TLS contexts: the one with which the gateway listens, and the one with which a verb asks a daemon.

`ssl` is imported by those who call: a gateway without TLS never pays for it, and gunicorn's master must not have
imported it before the standard library is patched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.errors import CertificateRefused

if TYPE_CHECKING:
    import ssl

BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Variables that name a file of certificates to trust; OpenSSL reads the first by itself."""
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_KEY = b"PRIVATE KEY-----"


def server_context(cert: str, key: str) -> ssl.SSLContext:
    """For listening with the PEM files of `tls_cert` and `tls_key`; TLS 1.2 at least. Raises CertificateRefused."""
    import ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _look_at(cert, key)
    try:
        context.load_cert_chain(cert, key, password=lambda: "")  # never asked for on a terminal
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "unreadable"
        if "MISMATCH" in reason:
            raise CertificateRefused(file=key, setting="tls_key", reason=f"it is not the key of tls_cert {cert}",
                                     remedy="name the key that this certificate was made for") from None
        raise CertificateRefused(file=cert, setting="tls_cert", reason=f"with tls_key {key}, OpenSSL says {reason}",
                                 remedy="check both with `openssl x509 -in` and `openssl pkey -in`") from None
    return context


def client_context(env: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """For asking a server whose certificate the system, or a file named in the environment, vouches for."""
    import ssl
    context = ssl.create_default_context()
    for name in BUNDLES:
        if env.get(name) and Path(env[name]).is_file():
            context.load_verify_locations(env[name])
    return context


def _look_at(cert: str, key: str) -> None:
    """Say what can be said better than OpenSSL does. Nothing of the files is ever told."""
    chain, secret = _read("tls_cert", cert), _read("tls_key", key)
    if _CERTIFICATE not in chain:
        raise CertificateRefused(file=cert, setting="tls_cert", reason="it holds no certificate in PEM form",
                                 remedy=f"name a file with a line {_CERTIFICATE.decode()}")
    if _KEY not in secret:
        raise CertificateRefused(file=key, setting="tls_key", reason="it holds no private key in PEM form",
                                 remedy=f"name a file with a line that ends in {_KEY.decode()}")
    if b"ENCRYPTED" in secret:
        raise CertificateRefused(file=key, setting="tls_key", reason="it is encrypted, and nobody can unlock it",
                                 remedy="write an open one with `openssl pkey -in FILE -out NEW`")


def _read(setting: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CertificateRefused(file=file, setting=setting, reason=error.strerror or str(error),
                                 remedy="correct the path, or let the user that runs Blazar read it") from None
