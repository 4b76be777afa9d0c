"""`SupervisorMetrics`: every number that the supervisor keeps of itself, declared once. Most are counted by events."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from blazar.telemetry.metrics import Counter, Gauge, Levels, StateGauge, Table

CHILD: Final = ("model", "replica")
"""How a child is named: its model, and which of the model's children it is, from 1 on."""


class SupervisorMetrics(Table):
    """All that is not a counter is filled in when a page is made."""

    def __init__(self) -> None:
        self.version = Levels("blazar_build_info", "1, with the version of this Blazar as its label.", "version")
        self.started = Gauge("blazar_start_time_seconds", "When the daemon started, in seconds since 1970.")
        self.models = Gauge("blazar_models_installed", "Models in the store.")
        self.loaded = Gauge("blazar_models_loaded", "Models that are ready to be asked.")
        self.states = Levels("blazar_child_state", "1 for the state that an engine process is in: queued, starting, "
                             "ready, draining or stopping.", *CHILD, "state")
        self.slots = Levels("blazar_child_slots", "Requests that a ready child answers at a time.", *CHILD)
        self.in_flight = Levels("blazar_child_requests", "Requests that a child has at this moment.", *CHILD)
        self.planned = Levels("blazar_child_memory_planned_bytes", "What a child has, or will have, by the plan for "
                              "it, of each memory.", *CHILD, "memory")
        self.resident = Levels("blazar_child_memory_resident_bytes", "Main memory that the process of a child has, "
                               "pages of its file included.", *CHILD)
        self.loads = Counter("blazar_model_loads_total", "Loads that have ended: `ready`, or `failed`.", "model",
                             "outcome")
        self.evictions = Counter("blazar_model_evictions_total", "Models that had to go: `idle`, `room`, `asked`, "
                                 "`replaced` or `reshaped`.", "model", "reason")
        self.deaths = Counter("blazar_child_deaths_total", "Engine processes that have ended by themselves.", "model")
        self.restarts = Counter("blazar_child_restarts_total", "Models that were ready again after their engine had "
                                "died.", "model")
        self.spec_governor = StateGauge("blazar_spec_governor", "Whether speculation of a model is parked, where "
                                        "spec_auto_manage is on.", "model", "state", ("active", "parked"))
        self.ubatch_governor = StateGauge("blazar_ubatch_governor", "Micro-batch of a loaded model, where ubatch_auto "
                                          "is on.", "model", "tier", ("default", "1024", "2048"))
        self.memory = Gauge("blazar_memory_bytes", "Main memory of this machine, or what control groups leave of it.")
        self.memory_free = Gauge("blazar_memory_free_bytes", "Main memory that could be had now without swapping.")
        self.gpu = Levels("blazar_gpu_memory_bytes", "Memory of a GPU.", "gpu", "name")
        self.gpu_free = Levels("blazar_gpu_memory_free_bytes", "Memory of a GPU that nobody uses.", "gpu", "name")
        self.processes = Levels("blazar_process_resident_bytes", "Main memory of our own processes.", "process")
        self.workers = Gauge("blazar_gateway_workers", "Gateway workers that are at work.")
        self.worker_starts = Counter("blazar_gateway_starts_total", "Gateway workers that were started.")
        self.pulls = Counter("blazar_pulls_total", "Pulls of the daemon that have ended: `finished` or `failed`.",
                             "outcome")
        self.events = Counter("blazar_events_total", "Events, by their kind.", "event")
        self.left_out = Counter("blazar_engine_pages_left_out_total", "Metrics of engines that are missing on a page: "
                                "the engine gave no answer in `time`, or none at all (`unreachable`), one that is no "
                                "page (`garbage`), or too long (`size`); or a metric of it is told otherwise by "
                                "somebody else (`clash`).", "model", "reason")
        self._counted: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "model_ready": lambda told: self.loads.add(told["model"], "ready"),
            "model_failed": lambda told: self.loads.add(told["model"], "failed"),
            "model_evicted": lambda told: self.evictions.add(told["model"], told["reason"]),
            "child_died": lambda told: self.deaths.add(told["model"]),
            "child_restarted": lambda told: self.restarts.add(told["model"]),
            "gateway_started": lambda told: self.worker_starts.add(),
            "pull_finished": lambda told: self.pulls.add("finished"),
            "pull_failed": lambda told: self.pulls.add("failed"),
        }

    def count(self, kind: str, fields: Mapping[str, Any]) -> None:
        """An event has happened."""
        self.events.add(kind)
        if kind in self._counted:
            self._counted[kind](fields)
