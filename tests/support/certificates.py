"""Certificates that sign themselves, made by the openssl program."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path


def certificate(folder: Path, name: str = "localhost") -> Certificate:
    """For `name` and 127.0.0.1, valid for a day."""
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1",
                    "-keyout", made.key, "-out", made.cert], check=True, capture_output=True)
    return made


def locked(key: Path, target: Path) -> Path:
    """The key, encrypted."""
    subprocess.run(["openssl", "pkey", "-aes256", "-passout", "pass:secret", "-in", key, "-out", target], check=True,
                   capture_output=True)
    return target
