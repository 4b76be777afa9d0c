"""Rules that keep callers, credentials and this machine safe."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from blazar.config.refusal import KeyPath
from blazar.config.rule import Problem, entries, flags_of, overrides, repeated, rule
from blazar.config.tables.api_keys import digest_of, names_of

Values = Mapping[str, Any]
ENGINE_TOOLS = ("agent", "server_tools", "mcp_servers_config", "mcp_servers_json")
"""Settings with which an engine runs programs on behalf of a model."""
TOOL_FLAGS = frozenset({"--tools", "--agent", "-ag", "--mcp-servers-config", "--mcp-servers-json", "--ui-mcp-proxy",
                        "--webui-mcp-proxy"})
"""The engine's flags that do the same."""
TOOL_VARIABLES = frozenset(f"LLAMA_ARG_{flag[2:].replace('-', '_').upper()}" for flag in TOOL_FLAGS
                           if flag.startswith("--"))
"""The variables by which llama-server takes these flags."""
PRIVATE_NETWORKS = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12",
                                                    "169.254.0.0/16", "fd00::/8", "fe80::/10")))
STDIO_ONLY = ("env", "env_clear", "allowed_env", "cwd", "max_output_bytes")


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach `host`. Names other than localhost are not looked up."""
    if host.lower().rstrip(".") == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


@rule(refused='tls_cert = "/etc/hostname"', accepted="")
def tls_pair(values: Values) -> Iterator[Problem]:
    """A certificate and its key come together."""
    for one, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if values[one] and not values[other]:
            yield Problem((one,), f"it is set and {other} is not",
                          "set both, which `blazar config edit` can, or neither")


@rule(refused='host = "0.0.0.0"\nagent = true',
      accepted='host = "0.0.0.0"\nagent = true\n[[keys]]\nname = "me"\nkey = "secret"')
def engine_tools_need_keys(values: Values) -> Iterator[Problem]:
    """Tools with which a model can run programs are not offered to a network without API keys."""
    if is_loopback(values["host"]) or values["keys"]:
        return
    for path in tools_offered(values):
        yield Problem(path, f"it lets anyone who reaches {values['host']} run programs on this machine",
                      'add [[keys]], or set host = "127.0.0.1"')


@rule(refused='host = "0.0.0.0"', accepted='host = "0.0.0.0"\n[[keys]]\nname = "me"\nkey = "secret"', warns=True)
def open_server_is_told(values: Values) -> Iterator[Problem]:
    """Whoever serves a network without API keys is told so at every start."""
    if not is_loopback(values["host"]) and not values["keys"]:
        yield Problem(("host",), f"anyone who reaches {values['host']} may ask, and add and remove models",
                      'make API keys with `blazar keys add NAME`, or set host = "127.0.0.1"', fatal=False)


def tools_offered(values: Values) -> Iterator[KeyPath]:
    """The settings, variables of engines, and extra_args of models, that let an engine run programs."""
    for name in ENGINE_TOOLS:
        if values[name]:
            yield (name,)
    for name in TOOL_VARIABLES.intersection(values["engine_env"]):
        yield ("engine_env", name)
    for path, entry in overrides(values):
        if TOOL_FLAGS.intersection(flags_of(entry["extra_args"])):
            yield (*path, "extra_args")


@rule(refused='[[remotes]]\nname = "box"\nurl = "http://box.example.com:8000"',
      accepted='[[remotes]]\nname = "box"\nurl = "https://box.example.com"\n'
               '[[remotes]]\nname = "here"\nurl = "http://[::1]:8000"')
def remote_key_stays_secret(values: Values) -> Iterator[Problem]:
    """An API key does not cross the open network in the clear, unless the owner says so."""
    for path, remote in entries(values, "remotes"):
        if _crosses(remote["url"]) == "the open network" and not remote["allow_insecure_http"]:
            yield Problem((*path, "url"), f"plain http to {_host(remote['url'])} would send the key in the clear",
                          "use https://, or the IP address of a private network; allow_insecure_http = true sends it "
                          "all the same")


@rule(refused='[[remotes]]\nname = "box"\nurl = "http://192.168.0.7:8000"',
      accepted='[[remotes]]\nname = "box"\nurl = "https://192.168.0.7:8000"', warns=True)
def cleartext_remote_is_told(values: Values) -> Iterator[Problem]:
    """Where a key does cross a network in the clear, its owner is told at every start."""
    for path, remote in entries(values, "remotes"):
        network = _crosses(remote["url"])
        if network == "the local network" or (network and remote["allow_insecure_http"]):
            yield Problem((*path, "url"), f"the key of remote {remote['name']} crosses {network} unencrypted",
                          "use https:// if the other side can", fatal=False)


def _crosses(url: str) -> str | None:
    """The network that a request to `url` crosses unencrypted; None when there is none."""
    host = _host(url)
    if not url.lower().startswith("http://") or host is None or is_loopback(host):
        return None
    address = _address(host)
    private = address is not None and any(address in network for network in PRIVATE_NETWORKS
                                          if network.version == address.version)
    return "the local network" if private else "the open network"


@rule(refused='[[remotes]]\nname = "box"\nurl = "https://me:secret@box.example.com"',
      accepted='[[remotes]]\nname = "box"\nurl = "https://box.example.com"\nkey = "secret"')
def remote_url_is_plain(values: Values) -> Iterator[Problem]:
    """A URL names a host and a port, and holds no credentials."""
    for path, remote in entries(values, "remotes"):
        yield from _plain_url((*path, "url"), remote["url"], "put the credential into `key`")


@rule(refused='[[mcp]]\nname = "calc"\nurl = "http://:80"',
      accepted='[[mcp]]\nname = "calc"\nurl = "http://mcp.internal:8808/mcp"')
def mcp_url_is_plain(values: Values) -> Iterator[Problem]:
    """As for remotes."""
    for path, server in entries(values, "mcp"):
        if server["url"]:
            yield from _plain_url((*path, "url"), server["url"], "leave it out")


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.port != 0 else None
    except ValueError:
        return None


def _plain_url(path: tuple, url: str, for_credentials: str) -> Iterator[Problem]:
    if _host(url) is None:
        yield Problem(path, "the URL names no host, or an impossible port", "write scheme://host:port")
    elif "@" in urlsplit(url).netloc:
        yield Problem(path, "the URL holds a user name or password", for_credentials)


@rule(refused='[[keys]]\nkey = "a"\nname = "me"\n[[keys]]\nkey = "a"\nname = "you"',
      accepted='[[keys]]\nkey = "a"\nname = "me"\n[[keys]]\nkey = "b"\nname = "you"')
def secrets_are_unique(values: Values) -> Iterator[Problem]:
    """One secret belongs to one API key, or its limits would be a matter of order."""
    seen: set[bytes] = set()
    for path, key in entries(values, "keys"):
        digest = digest_of(key["key"])
        if digest in seen:
            yield Problem((*path, "key"), "another entry of [[keys]] has the same secret", "give each its own")
        seen.add(digest)


@rule(refused='[[keys]]\nkey = "a"\nname = "me"\n[[keys]]\nkey = "b"\nname = "Me"',
      accepted='[[keys]]\nkey = "a"\nname = "me"\n[[keys]]\nkey = "b"')
def key_names_are_unique(values: Values) -> Iterator[Problem]:
    """Counts and logs go by the name of an API key."""
    for path, name in repeated(values, "keys", "name"):
        yield Problem(path, f"another entry of [[keys]] is called {name}", "give each its own name")
    written = {str(key["name"]).lower() for key in values["keys"]}
    for (path, key), name in zip(entries(values, "keys"), names_of(values["keys"]), strict=True):
        if not key["name"] and name in written:
            yield Problem(path, f"it has no name and counts as {name}, as which another entry is called",
                          "give it a name")


@rule(refused='[[mcp]]\nname = "a"\ncommand = ["x"]\nallowed_env = ["PATH"]',
      accepted='[[mcp]]\nname = "a"\ncommand = ["x"]\nenv_clear = true\nallowed_env = ["PATH"]')
def allowed_env_needs_env_clear(values: Values) -> Iterator[Problem]:
    """A list of allowed variables restricts nothing while the whole environment is handed over."""
    for path, server in entries(values, "mcp"):
        if server["allowed_env"] and not server["env_clear"]:
            yield Problem((*path, "allowed_env"), "it restricts nothing without env_clear = true",
                          "add env_clear = true, or remove it")


@rule(refused='[[mcp]]\nname = "a"\nurl = "http://x/mcp"\nenv_clear = true',
      accepted='[[mcp]]\nname = "a"\nurl = "http://x/mcp"\ntimeout_secs = 5')
def stdio_options_need_command(values: Values) -> Iterator[Problem]:
    """What shapes a process means nothing for a server reached by URL."""
    for path, server in entries(values, "mcp"):
        for field in STDIO_ONLY:
            if server["url"] and server[field]:
                yield Problem((*path, field), "it is for servers with a `command` only", "remove it")


EXPOSURE_RULES = (tls_pair, engine_tools_need_keys, open_server_is_told, remote_key_stays_secret,
                  cleartext_remote_is_told, remote_url_is_plain, mcp_url_is_plain, secrets_are_unique,
                  key_names_are_unique, allowed_env_needs_env_clear, stdio_options_need_command)
