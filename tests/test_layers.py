"""Who may import whom, as data, checked against the source with `ast`."""

import ast
import functools
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "blazar"

LAYERS = [
    # From the ground up. A room imports only from rows below its own, and from its own package; `room` means the
    # module or package of that name. Rooms of one row never import each other.
    ["blazar"],
    ["blazar.errors"],
    ["blazar.paths", "blazar.units"],
    ["blazar.transport", "blazar.telemetry", "blazar.tls"],
    ["blazar.control", "blazar.download"],
    ["blazar.config", "blazar.models"],
    ["blazar.store", "blazar.hardware"],
    ["blazar.planner"],
    ["blazar.engines"],
    ["blazar.supervisor", "blazar.proxy", "blazar.doctor", "blazar.upgrade"],
    ["blazar.cli", "blazar.wsgi"],
]

CONFINED = {
    # library: the only places that may import it
    "gevent": ["blazar.proxy.greens", "blazar.proxy.wire"],
    "falcon": ["blazar.proxy"],
    "gunicorn": ["blazar.proxy"],
    "peewee": ["blazar.models"],
    "jsonschema": ["blazar.proxy.schemas"],
    "xllamacpp": ["blazar.engines.embedded"],
    "subprocess": ["blazar.supervisor.spawn", "blazar.supervisor.gateway", "blazar.engines", "blazar.hardware",
                   "blazar.download.pip", "blazar.upgrade", "blazar.cli.service.systemd",
                   "blazar.cli.config.edit", "blazar.proxy.mcp.stdio", "blazar.proxy.audio.transcode"],
}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


@functools.cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                child = f"{node.module}.{alias.name}"
                found.add(child if child in MODULES else node.module)
    return found


def inside(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def row(module: str) -> tuple[int, str]:
    for number in range(len(LAYERS) - 1, -1, -1):
        for room in LAYERS[number]:
            if inside(module, room) and (room != "blazar" or module == "blazar"):
                return number, room
    raise AssertionError(f"{module} stands in no row of LAYERS")


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module):
    number, room = row(module)
    for target in imports(MODULES[module]):
        if inside(target, "blazar"):
            other, other_room = row(target)
            assert other_room == room or other < number, f"{module} (row {number}) imports {target} (row {other})"


@pytest.mark.parametrize("library", CONFINED)
def test_library_stays_where_it_belongs(library):
    for module, path in MODULES.items():
        if any(inside(target, library) for target in imports(path)):
            assert any(inside(module, place) for place in CONFINED[library]), f"{module} imports {library}"


def test_no_circle():
    graph = {name: {target for target in imports(path) if target in MODULES and target != name}
             for name, path in MODULES.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail, name])
        if name not in done:
            for target in graph[name]:
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_gateway_module_is_safe_to_import_before_patching():
    """gunicorn's master imports the launcher and the worker class unpatched; sockets and threads come later."""
    for module in ("blazar.proxy.serve", "blazar.proxy.wire.worker"):
        if module in MODULES:
            tree = ast.parse(MODULES[module].read_text())
            top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
            top |= {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
            for name in top:
                assert name.split(".")[0] not in {"requests", "urllib3", "peewee", "falcon"}, f"{module}: {name}"
