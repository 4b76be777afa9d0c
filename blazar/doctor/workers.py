"""Do the RPC workers answer that the configuration names?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.engines.rpc import configured, workers_at
from blazar.errors import ConfigRefused
from blazar.units import format_bytes


def check_workers(surroundings: Surroundings) -> Finding:
    try:
        named = configured(surroundings.config)
    except ConfigRefused:
        named = []
    if not named:
        return Finding("rpc workers", "ok", "none are configured")
    workers = workers_at(named)
    told = [f"{worker.address} {worker.state}"
            + (f" ({format_bytes(sum(free for free, _ in worker.devices))} free)" if worker.devices else "")
            for worker in workers]
    gone = any(worker.state == "gone" for worker in workers)
    return Finding("rpc workers", "warn" if gone else "ok", ", ".join(told),
                   "start them with `blazar rpc worker`, or take them out of rpc_servers" if gone else "")
