"""`InForce`: the settings that hold now, for whoever asks each time; `Takeover`: how others take their place."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.config.load import refuse_together
from blazar.config.reach import FIXED, TOLD, changed, of_gateway
from blazar.hardware.census import Census
from blazar.planner.room import Room
from blazar.supervisor.answers import Answers
from blazar.supervisor.certificate import Certificate, Found
from blazar.supervisor.gateway import Gateway
from blazar.supervisor.loader import Loader
from blazar.supervisor.means import Weighed
from blazar.supervisor.relaunch import Relaunch
from blazar.supervisor.reload import Fresh, Waiter
from blazar.supervisor.report import Report

log = logging.getLogger(__name__)


class InForce:
    """`loader_of` makes a loader that goes by some settings."""

    def __init__(self, config: Config, loader_of: Callable[[Config], Loader]) -> None:
        self.config = config
        self.loader = loader_of(config)
        self._loader_of = loader_of

    def take(self, config: Config) -> None:
        self.config, self.loader = config, self._loader_of(config)

    def settings_for(self, model: str, own: Mapping[str, Any] = MappingProxyType({})) -> Mapping[str, Any]:
        """Those of one model, with which `own` were given."""
        return effective(self.config, model, own)

    def weigh(self, place: str) -> Weighed:
        return self.loader.weigh(place)

    def survey(self, model: str, asked: Mapping[str, Any]) -> Weighed:
        return self.loader.survey(model, asked)

    def loses_nothing(self, place: str, now: Mapping[str, Any], then: Mapping[str, Any], machine: Census,
                      room: Room) -> bool:
        return self.loader.loses_nothing(place, now, then, machine, room)


class Takeover:
    """`take` has the supervisor's own parts go by other settings. Used on the loop's thread."""

    def __init__(self, in_force: InForce, answers: Answers, gateway: Gateway, certificate: Certificate,
                 relaunch: Relaunch, take: Callable[[Config], None]) -> None:
        self._in_force = in_force
        self._answers = answers
        self._gateway = gateway
        self._certificate = certificate
        self._relaunch = relaunch
        self._take = take

    def apply(self, fresh: Fresh, then: Waiter) -> None:
        """Put what was read in force; `then` is told what has come of it. Raises ConfigRefused and CertificateRefused,
        and then nothing has changed."""
        now, before = self._in_force.config, self._answers.settings()
        config = fresh.config.keeping(now, FIXED)
        refuse_together(config.as_dict(), f"with host {now.host}, which stays until a restart")
        if fresh.refusal is not None and (config.tls_cert, config.tls_key) != (now.tls_cert, now.tls_key):
            raise fresh.refusal
        self._answers.refuse_shadows(config.as_dict()["alias"])
        former_pair = self._certificate.found
        differ = changed(before, fresh.config.as_dict())
        report = Report(changed=[name for name in differ if name not in FIXED],
                        restart=[name for name in differ if name in FIXED], warnings=list(config.warnings))
        self._renew(fresh, report)
        if not report.changed:
            then(report, None)
            return
        former = self._in_force.loader
        self._in_force.take(config)
        self._take(config)
        self._answers.go_by(config.as_dict())
        self._relaunch.look(former, report, lambda: self._replace(before, former_pair, report, then))

    def _renew(self, fresh: Fresh, report: Report) -> None:
        if fresh.refusal is None:
            report.certificate = self._certificate.take(fresh.found)
            return
        self._certificate.refuse(fresh.refusal)
        report.certificate = "refused"
        report.failed.append(f"{fresh.refusal.message}; new connections get the certificate from before")

    def _replace(self, before: dict[str, Any], former_pair: Found, report: Report, then: Waiter) -> None:
        """Have another gateway take over where its settings have changed."""
        now = self._answers.settings()
        if of_gateway(before) == of_gateway(now):
            then(report, None)
            return

        def replaced(failure: str) -> None:
            if failure:
                log.error("gateway: not replaced: %s", failure)
                report.failed.append(f"the gateway goes on with its settings from before: {failure}")
                self._answers.go_by({**before, **{name: self._answers.settings()[name] for name in held}})
                if not same_scheme:
                    self._certificate.take(former_pair)
                    report.certificate = "kept"
            else:
                report.gateway = "replaced"
            then(report, None)

        same_scheme = bool(before["tls_cert"]) == bool(now["tls_cert"])
        held = TOLD if same_scheme else ("keys",)
        self._gateway.replace(replaced)
