"""Security: API keys, other servers, and the engine's own tools"""

from blazar.config.setting import Setting, Table
from blazar.config.tables import remotes
from blazar.config.tables.api_keys import ApiKeys
from blazar.config.types import Bool, File, Json, ListOf, OneOf, Text
from blazar.config.written import named_tools

SETTINGS = (
    Setting("keys", ApiKeys(), (), env="BLAZAR_KEYS", env_adds=True,
            doc="API keys of the callers; with at least one, every request needs one."),
    Setting("remotes", ListOf(Table(*remotes.FIELDS, what="[[remotes]]")), (),
            doc="Other OpenAI-compatible servers; several of one name form a pool."),
    Setting("agent", Bool(), False, lane="llamacpp", flag="--agent",
            doc="Start engines with their agent features, which can run programs on this machine."),
    Setting("server_tools", OneOf(Bool(), Text(like='"all" or names of tools, separated by commas', empty=False),
                                  toml_type="str|bool"), None, lane="llamacpp", flag="--tools", written=named_tools,
            doc="Tools that the engine itself runs for a model, on this machine."),
    Setting("server_tools_runtime", Text(r"(docker|podman|ssh):.+", like='"docker:…", "podman:…" or "ssh:…"',
                                         empty=False), None, lane="llamacpp", flag="--tools-runtime", gate="refuse",
            doc="Container or host in which the engine runs its tools."),
    Setting("mcp_servers_config", File(), None, lane="llamacpp", flag="--mcp-servers-config",
            doc="File with MCP servers that the engine itself starts."),
    Setting("mcp_servers_json", Json('{"mcpServers": {}}'), None, secret=True,
            doc="MCP servers that the engine itself starts, as a JSON object."),
)
