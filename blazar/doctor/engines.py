"""Is there a program that can serve a model?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.engines.routing import find_program
from blazar.errors import EngineMissing


def check_engine(surroundings: Surroundings) -> Finding:
    try:
        program = find_program("a model", surroundings.env.get("BLAZAR_ENGINE_PATH") or None, surroundings.env)
    except EngineMissing as missing:
        found, _, remedy = str(missing).removeprefix("no engine can serve a model: ").partition("; ")
        return Finding("engine", "fail", found, remedy)
    where = "embedded (xllamacpp)" if program.source == "embedded" else f"{program.argv[0]}, by {program.source}"
    return Finding("engine", "ok", f"{program.kind}: {where}")
