"""Which modules are compiled: those that a hot request runs through, by room.

Left out, and why:

- `proxy/wire/worker.py`, `proxy/serve.py`: gunicorn makes the worker from a class of its own, which stays Python.
- `proxy/assemble.py`: puts answers together that are translated as a whole.
- `proxy/schemas.py`, `proxy/structured.py`, `proxy/embedder.py` and the rest of the proxy: their requests wait for an
  engine for so long that nothing would be gained.
- `control.py` and all of the supervisor: real threads, and no request passes through them.
"""

ROOMS = {
    "": ("transport",),
    "proxy": ("accounts", "api_key", "app", "around", "auth", "directory", "dispatch", "endings", "exchange", "flight",
              "gateway", "head_facts", "json", "json_scan", "keeping", "ledger", "limits", "meter", "parking",
              "pipeline", "rates", "readiness", "receipts", "request", "routed", "sliding", "usage_filter", "uses"),
    "proxy/batches": ("inner",),
    "proxy/dialects": ("fields", "openai", "times"),
    "proxy/resources": ("completions", "exchanges"),
    "proxy/stages": ("admission", "auth", "capability", "charge", "knobs", "name", "preflight", "quota", "resolve",
                     "retry", "semantic_cache", "singleflight", "structure", "trace"),
    "proxy/wire": ("client", "conversation", "familiar", "flow", "framing", "head", "lean", "listening", "pool",
                   "relay", "request_head", "sinks", "stock", "tls_client", "turns"),
    "telemetry": ("audit", "metrics", "supervisor_metrics"),
}

FILES = tuple("/".join(("blazar", *room.split("/"), f"{name}.py")).replace("//", "/")
              for room, names in ROOMS.items() for name in names)
"""Their sources, from the root of the checkout."""
