"""The OpenAPI document is true: a machine that reads it asks everything it allows, and nothing ends in a 5xx."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from blazar.proxy.api_bodies import BODIES
from blazar.proxy.openapi import document
from blazar.proxy.routes import ROUTES
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

MODEL = "tiny:f32"


def test_every_route_is_described_and_nothing_else():
    assert set(BODIES) == {(route.method, route.path) for route in ROUTES}
    operations = [operation for path in document(ROUTES, "1")["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) == len(ROUTES)
    assert all(operation["summary"].endswith(".") for operation in operations)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    pytest.importorskip("schemathesis")
    shell = Shell(tmp_path_factory.mktemp("openapi"))
    shell.ok("pull", str(tiny_gguf(shell.home / "tiny.gguf", ctx=1024)), "--name", MODEL)
    shell.config.write_text(f'{shell.config.read_text()}[model_overrides."{MODEL}".sampler_defaults]\nmax_tokens = 4\n')
    shell.start()
    yield shell
    shell.stop()


@pytest.mark.timeout(300)  # hundreds of requests, on a machine that others use too
def test_a_machine_that_reads_it_gets_no_5xx(daemon, tmp_path):
    with urllib.request.urlopen(f"{daemon.url}/openapi.json", timeout=10) as answer:
        found = json.load(answer)
    del found["paths"]["/api/pull"]  # its registry may be out of reach, which is a 502
    del found["paths"]["/api/events"]  # it goes on until whoever listens has had enough
    for properties in bodies(found):
        properties["model"] = {"type": "string", "enum": [MODEL, "missing"]}
        properties.pop("keep_alive", None)  # 0 would unload what another request waits for, which gets a 503
    del found["paths"]["/api/delete"]["delete"]["requestBody"]  # so that it takes nothing away
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(found))
    command = [Path(sys.executable).with_name("schemathesis"), "run", file, "--url", daemon.url, "--no-color",
               "--checks", "not_a_server_error,status_code_conformance,content_type_conformance",
               "--generation-deterministic", "--workers", "1",  # two trip over ast.parse of Python 3.11, now and then
               "--request-timeout", "60", "--phases", "examples,coverage", "--warnings", "off"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=tmp_path,
                          env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]


def bodies(found):
    """The properties of every request body that names a model."""
    for operations in found["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if "model" in content["schema"].get("properties", {}):
                    yield content["schema"]["properties"]
