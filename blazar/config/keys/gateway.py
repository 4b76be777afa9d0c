"""Gateway: where Blazar listens, TLS, browsers and time limits"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, File, Int, ListOf, Network, Text

SETTINGS = (
    Setting("host", Text(r"[^\s/]+", like='an address such as "127.0.0.1"', empty=False), "127.0.0.1",
            group="gateway",
            doc="Address to listen on; anything but a loopback address should have [[keys]]."),
    Setting("port", Int(0, 65535), 11435, group="gateway",
            doc="TCP port to listen on; 0 lets the system choose one, which is then printed."),
    Setting("model_load_timeout_secs", Int(1, 86400), None, group="gateway",
            doc="Seconds a model may take to become ready, whatever its engine; unset, each engine has its own."),
    Setting("server_timeout_secs", Int(1, 7 * 86400), None, group="gateway", lane="llamacpp", flag="--timeout",
            doc="Seconds a request to a child may take; unset means an hour."),
    Setting("child_header_timeout_secs", Int(0, 86400), 120, group="gateway",
            doc="Seconds to wait for the head of a child's answer; 0 = for ever."),
    Setting("tls_cert", File(), "", group="gateway",
            doc="PEM file with the certificate chain; needs tls_key."),
    Setting("tls_key", File(), "", group="gateway",
            doc="PEM file with the private key of tls_cert."),
    Setting("cors_origins", ListOf(Text(r"\*|null|[a-z][a-z0-9+.-]*://[^/\s]*",
                                        like='an origin such as "https://app.example.com", or "*"', empty=False)),
            (), group="gateway",
            doc="Web origins whose pages may call this server, besides those of this machine; \"*\" allows every one, "
                "\"null\" those without an origin."),
    Setting("trusted_proxies", ListOf(Network()), (),
            doc="Proxies, such as nginx, that are believed when they say in X-Forwarded-For who the client is."),
    Setting("shutdown_grace_secs", Int(0, 3600), 30,
            doc="Seconds that open answers get to finish when Blazar stops."),
    Setting("client_write_timeout_secs", Int(1, 3600), 60,
            doc="Seconds a client may read nothing before its request is cancelled."),
    Setting("max_queued", Int(1, 10**5), 512,
            doc="Requests that may wait for one model, for a slot or for its load; more are refused."),
    Setting("queue_timeout_secs", Int(1, 86400), 600,
            doc="Seconds a request may wait for a slot of its model before it is refused."),
    Setting("max_body_mb", Int(1, 4096), 64,
            doc="Size of the largest accepted request body, in MiB; larger ones get 413."),
    Setting("json_scan_over_kb", Int(1, 2**20), 256,
            doc="Request bodies over this many KiB are scanned for their few top-level fields, not parsed whole."),
    Setting("buffered_via_stream", Bool(), False,
            doc="Fetch non-streamed OpenAI answers as a stream from the child and assemble them here."),
)
