"""`Report`: what has come of reading the configuration again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class Report:
    """Plain values, as a gateway or a verb is told them."""

    changed: list[str] = field(default_factory=list)
    """The settings whose values are others now."""
    children: list[str] = field(default_factory=list)
    """Models that are loaded anew once their requests have ended."""
    gateway: str = "kept"
    """`replaced` when its settings have changed; its streams go on in the one from before."""
    certificate: str = "kept"
    """`new` for new connections, `kept`, or `refused`."""
    restart: list[str] = field(default_factory=list)
    """Settings whose new values hold from the next start on."""
    failed: list[str] = field(default_factory=list)
    """What could not be put in force, and why."""
    warnings: list[str] = field(default_factory=list)
    """What is odd about the configuration."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Report":
        """The way back from `as_dict`; what another version tells besides is passed over."""
        return cls(**{one.name: told[one.name] for one in fields(cls) if one.name in told})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """The same for people."""
        said = [f"changed: {', '.join(self.changed)}"] if self.changed else []
        if not self.changed and not self.restart:
            said.append("no setting has changed")
        if self.children:
            said.append(f"loaded anew once their requests have ended: {', '.join(self.children)}")
        if self.gateway == "replaced":
            said.append("the gateway was replaced; its running answers go on")
        if self.certificate == "new":
            said.append("new connections get the new certificate")
        if self.restart:
            said.append(f"needs a restart of the daemon: {', '.join(self.restart)}")
        return [*said, *(f"not in force: {failure}" for failure in self.failed)]
