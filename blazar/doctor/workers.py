"""The fleet of RPC workers that the configuration names: who answers, which protocol it speaks, what memory it has."""

from blazar.doctor.check import Finding, Surroundings
from blazar.engines.rpc import Worker, configured, workers_at
from blazar.errors import ConfigRefused
from blazar.units import format_bytes


def check_workers(surroundings: Surroundings) -> list[Finding]:
    try:
        named = configured(surroundings.config)
    except ConfigRefused:
        named = []
    if not named:
        return [Finding("rpc workers", "ok", "none are configured")]
    return [_finding(worker) for worker in workers_at(named)]


def _finding(worker: Worker) -> Finding:
    check = f"rpc worker {worker.address}"
    if worker.state == "gone":
        return Finding(check, "warn", f"gone: {worker.problem}",
                       "start it with `blazar rpc worker`, or take it out of rpc_servers: `blazar config edit`")
    if worker.state == "busy":
        return Finding(check, "ok", f"busy: {worker.problem}")
    devices = [f"device {number}: {format_bytes(free)} free of {format_bytes(total)}"
               for number, (free, total) in enumerate(worker.devices)]
    return Finding(check, "ok", ", ".join([f"protocol {worker.version}", *(devices or ["no device"])]))
