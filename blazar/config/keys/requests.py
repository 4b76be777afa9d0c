"""Requests: what is done with a request on its way"""

from blazar.config.setting import Setting, Table
from blazar.config.tables import mcp, semantic_cache
from blazar.config.types import Bool, Choice, Int, ListOf, Text

SETTINGS = (
    Setting("singleflight", Bool(), True,
            doc="Answer identical requests that come at the same time, and do not stream, with one run."),
    Setting("prompt_preflight", Bool(), True,
            doc="Refuse prompts that do not fit the context before they reach a child."),
    Setting("sentinel", Bool(), True,
            doc="Watch answers for stalls and broken structure."),
    Setting("sentinel_stall_secs", Int(1, 86400), 30,
            doc="Seconds without a token after which an answer counts as stalled."),
    Setting("sentinel_enforce", Bool(), False,
            doc="Answer 422 when an answer breaks the structure that was asked for."),
    Setting("decode_policy", Choice("free", "strict"), "free",
            doc="Whether tool calls on the Ollama routes are held to their form by a grammar."),
    Setting("raw_lane_max_tokens", Int(0), 2048, overlay="raw_lane_max_tokens",
            doc="Most tokens of a raw completion on the Ollama routes; 0 = no limit."),
    Setting("semantic_cache", Table(*semantic_cache.FIELDS, what="[semantic_cache]"),
            {"enabled": False, "ttl_secs": 600, "threshold": 0.9, "max_entries": 256},
            doc="Answer from earlier answers to nearly the same question."),
    Setting("mcp", ListOf(Table(*mcp.FIELDS, what="[[mcp]]")), (),
            doc="MCP servers whose tools a chat request may ask for."),
    Setting("mcp_default", Text(like='"all", "none" or the name of one [[mcp]] server', empty=False), None,
            doc="MCP servers for requests that name none themselves."),
)
