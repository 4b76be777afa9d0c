"""Which origins may read our answers."""

import pytest

from blazar.config.config import Config
from blazar.proxy.cors import Cors

MACHINE = ["http://localhost", "http://localhost:3000", "https://localhost:8443", "http://127.0.0.1:1", "http://[::1]:9",
           "http://0.0.0.0:80", "HTTP://LocalHost:1"]
APPLICATIONS = ["app://obsidian.md", "file://", "file:///home/me/x.html", "tauri://localhost", "vscode-webview://1a2b",
                "vscode-file://vscode-app"]
FOREIGN = ["https://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "null", "",
           "http://localhost:3000/path", "http://evil@localhost", "ftp://localhost", "http://127.0.0.2", "*",
           "chrome-extension://abc", "file://\r\nx", "localhost"]


def cors(**settings):
    return Cors(Config.from_dict(settings))


@pytest.mark.parametrize("origin", MACHINE + APPLICATIONS)
def test_always_allowed(origin):
    assert cors().allows(origin)


@pytest.mark.parametrize("origin", FOREIGN)
def test_never_allowed_unasked(origin):
    assert not cors().allows(origin)


def test_listed_ones_are_added():
    listed = cors(cors_origins=["https://App.example.com", "null"])
    assert listed.allows("https://app.example.com") and listed.allows("null") and listed.allows("file://")
    assert not listed.allows("https://app.example.com:8443") and not listed.allows("http://app.example.com")


def test_a_star_allows_every_one():
    assert cors(cors_origins=["*"]).allows("https://anything.example")


@pytest.mark.parametrize("tool", [{"agent": True}, {"server_tools": "all"}, {"mcp_servers_json": '{"mcpServers":{}}'},
                                  {"mcp_servers_config": "/x"}, {"server_tools_runtime": "docker:x"},
                                  {"model_overrides": {"m": {"extra_args": ["--tools", "all"]}}}])
def test_the_engines_tools_narrow_it_to_this_machine(tool):
    narrow = cors(cors_origins=["*", "https://app.example.com"], **tool)
    assert all(map(narrow.allows, MACHINE))
    assert not any(map(narrow.allows, [*APPLICATIONS, *FOREIGN, "https://app.example.com"]))


def test_a_preflight_repeats_only_names_of_fields():
    asked = {"origin": "http://localhost", "access-control-request-headers": "a, x-b"}
    assert ("Access-Control-Allow-Headers", "a, x-b") in cors().preflight(asked, "GET")
    odd = {**asked, "access-control-request-headers": "a\tb: c"}
    assert [name for name, _ in cors().preflight(odd, "GET")] == [
        "Access-Control-Allow-Methods", "Access-Control-Max-Age"]
