"""Certificates that sign themselves, made by the openssl program."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.needs import need


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path


def certificate(folder: Path, name: str = "localhost", addresses: tuple[str, ...] = ("127.0.0.1",)) -> Certificate:
    """For `name` and `addresses`, valid for a day."""
    need("openssl")
    names = ",".join([f"DNS:{name}", *(f"IP:{address}" for address in addresses)])
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}",
                    "-keyout", made.key, "-out", made.cert], check=True, capture_output=True)
    return made


def locked(key: Path, target: Path) -> Path:
    """The key, encrypted."""
    subprocess.run(["openssl", "pkey", "-aes256", "-passout", "pass:secret", "-in", key, "-out", target], check=True,
                   capture_output=True)
    return target
