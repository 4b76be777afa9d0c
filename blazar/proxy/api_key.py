"""`ApiKey`: a caller's credential, as the settings have it."""

from dataclasses import dataclass

from blazar.proxy.limits import NO_LIMITS, Limits


@dataclass(frozen=True)
class ApiKey:
    """Its name, the digest of its text, the references it may use (none = all), its limits."""

    name: str
    digest: bytes
    models: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS
