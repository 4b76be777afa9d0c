from pathlib import Path

import pytest

from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.config.registry import SETTINGS
from blazar.engines.help_text import read_flags
from blazar.engines.lane import Launch
from blazar.engines.llamacpp import LlamaCpp, context_per_slot
from blazar.engines.manifest import Manifest
from blazar.engines.program import Program
from blazar.errors import AdapterPathRefused, FlagMissing
from blazar.paths import package_home
from blazar.planner.kv import Grade
from blazar.planner.plan import Plan
from tests.support.programs import HELP

PROGRAM = Program("llamacpp", ("/usr/bin/llama-server",), "PATH")


def command(settings=None, trained=32768, program=PROGRAM, secret=Path("/run/solo.apikey"), manifest=None,
            companions=(), template=None, plan=None, sessions=None, **facts):
    config = Config.from_dict(settings or {})
    return LlamaCpp(SETTINGS.values()).command(Launch(
        model="solo:q4_0", file=Path("/models/solo.gguf"), facts={"format": "gguf", "context_length": trained, **facts},
        settings=effective(config, "solo:q4_0"), program=program, secret_file=secret,
        manifest=manifest, companions=companions, template=template, plan=plan, sessions=sessions))


def test_argv_of_an_all_default_config():
    made = command()
    assert made.argv == (
        "/usr/bin/llama-server", "--model", "/models/solo.gguf", "--alias", "solo:q4_0", "--metrics",
        "--ctx-size", "16384", "--parallel", "1", "--jinja", "--api-key-file", "/run/solo.apikey",
        "--sleep-idle-seconds", "300")
    assert (made.env, made.ctx, made.slots) == ({}, 16384, 1)


def test_where_slots_are_kept():
    assert "/data/sessions/solo/" in (made := command(sessions=Path("/data/sessions/solo"))).argv
    assert made.argv[made.argv.index("/data/sessions/solo/") - 1] == "--slot-save-path"
    known = dict.fromkeys(("--model", "--ctx-size", "--parallel", "--api-key-file"))
    old = command(sessions=Path("/s"), manifest=Manifest(flags=known))
    assert "--slot-save-path" not in old.argv and any("--slot-save-path" in sentence for sentence in old.skipped)


def test_a_file_with_all_defaults_gives_the_same_argv():
    assert command(Config.from_dict({}).as_dict()) == command()


@pytest.mark.parametrize("settings, expected", [
    ({"batch_size": 1024}, ("--batch-size", "1024")),
    ({"ubatch_size": 256}, ("--ubatch-size", "256")),
    ({"slots": 4}, ("--ctx-size", "65536", "--parallel", "4")),
    ({"slots": 4, "default_ctx": 100}, ("--ctx-size", "400", "--parallel", "4")),
    ({"default_ctx": 0}, ("--ctx-size", "32768")),
    ({"default_ctx": 99999}, ("--ctx-size", "32768")),
    ({"model_overrides": {"solo": {"ctx": 2048, "slots": 2}}}, ("--ctx-size", "4096", "--parallel", "2")),
])
def test_settings_become_flags(settings, expected):
    words = command(settings).argv
    start = words.index(expected[0])
    assert words[start:start + len(expected)] == expected


@pytest.mark.parametrize("pooling, said", [(0, ("--pooling", "mean")), (1, ()), (2, ())])
def test_an_embedding_model_reads_a_text_in_one_batch_and_is_pooled(pooling, said):
    words = command({"batch_size": 64, "ubatch_size": 32}, trained=512, capabilities=["embedding"],
                    pooling=pooling).argv
    start = words.index("--embeddings")
    assert words[start:-2] == ("--embeddings", "--batch-size", "512", "--ubatch-size", "512", *said)
    assert words.count("--batch-size") == words.count("--ubatch-size") == 1


def test_other_models_do_not_embed():
    assert "--embeddings" not in command(capabilities=["completion", "tools"]).argv


def test_an_embedding_model_of_unknown_length_keeps_the_engines_batches():
    made = command({"default_ctx": 0, "idle_sleep_secs": 0}, trained=0, capabilities=["embedding"], pooling=1)
    assert made.argv[-1] == "--embeddings"


def test_no_secret_no_flag():
    assert "--api-key-file" not in command(secret=None).argv


def test_embedded_engine_finds_this_package_and_engine_env_is_passed_on():
    embedded = Program("llamacpp", ("python", "-P", "-m", "blazar.engines.embedded"), "embedded")
    made = command({"engine_env": {"GGML_X": "1"}}, program=embedded)
    assert made.env == {"GGML_X": "1", "PYTHONPATH": str(package_home())}
    assert (package_home() / "blazar" / "engines" / "embedded.py").exists()


@pytest.mark.parametrize("wanted, trained, expected", [(100, 50, 50), (50, 100, 50), (0, 70, 70), (70, 0, 70),
                                                       (0, 0, 0)])
def test_context_is_never_more_than_trained(wanted, trained, expected):
    assert context_per_slot(wanted, trained) == expected


def test_only_gguf_is_accepted():
    assert LlamaCpp().accepts({"format": "gguf"})
    assert not LlamaCpp().accepts({"format": "safetensors"})
    assert LlamaCpp().address_flags(("127.0.0.1", 0)) == ("--host", "127.0.0.1", "--port", "0")


@pytest.mark.parametrize("sign", [",", ":", '"'])
def test_an_adapter_that_no_list_of_the_engine_can_name_is_refused(sign):
    with pytest.raises(AdapterPathRefused, match=r"its adapter lies at /d.ir/a.gguf.*--data-dir"):
        command(companions=(("adapter", Path("/fine.gguf")), ("adapter", Path(f"/d{sign}ir/a.gguf"))))



def test_files_beside_the_model_have_flags_of_their_own():
    made = command(companions=(("projector", Path("/p")), ("draft", Path("/d")), ("adapter", Path("/a")),
                               ("adapter", Path("/b"))), template=Path("/t.jinja"))
    start = made.argv.index("--mmproj")
    assert made.argv[start:-2] == ("--mmproj", "/p", "--lora", "/a,/b", "--chat-template-file", "/t.jinja")


@pytest.mark.parametrize("build", ["llama-server-b10434", "llama-server-b11434"])
@pytest.mark.parametrize("facts", [{}, {"capabilities": ["embedding"]}])
def test_a_real_build_has_every_flag_that_is_written(build, facts):
    manifest = Manifest("x", read_flags((HELP / f"{build}.txt").read_text()))
    settings = {"batch_size": 64, "ubatch_size": 32, "slots": 2}
    made = command(settings, manifest=manifest, **facts)
    assert made == command(settings, **facts) and made.skipped == ()
    address = LlamaCpp().address_flags(("127.0.0.1", 0))
    assert all(manifest.has(word) for word in (*made.argv, *address) if word.startswith("--"))


def without(*gone):
    known = read_flags((HELP / "llama-server-b11434.txt").read_text())
    return Manifest("x", {name: flag for name, flag in known.items() if name not in gone})


def test_an_older_build_is_given_what_it_knows():
    made = command({"batch_size": 64}, manifest=without("--jinja", "--batch-size"))
    assert made.argv == tuple(word for word in command().argv if word != "--jinja")
    assert made.skipped == ("the model's chat template has no effect: the engine /usr/bin/llama-server has no --jinja",
                            "batch_size has no effect: the engine /usr/bin/llama-server has no --batch-size")


@pytest.mark.parametrize(("flag", "what", "facts"), [
    ("--model", "a model file", {}), ("--ctx-size", "default_ctx", {}), ("--parallel", "slots", {}),
    ("--api-key-file", "child_auth", {}), ("--embeddings", "an embedding model", {"capabilities": ["embedding"]})])
def test_what_cannot_be_done_without_is_refused(flag, what, facts):
    with pytest.raises(FlagMissing) as caught:
        command(manifest=without(flag), **facts)
    refused = f"{what} needs another engine, since the engine /usr/bin/llama-server has no {flag}; "
    assert refused in caught.value.message


def test_a_plan_adds_the_layers_on_cards_and_their_numbers():
    cards = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1"}
    made = command({"engine_env": {"GGML_X": "1"}}, plan=Plan(4096, 1, Grade(), (), gpu_layers=20, env=cards))
    assert made.argv[made.argv.index("--gpu-layers") + 1] == "20" and made.env == {"GGML_X": "1", **cards}
    assert command(plan=Plan(4096, 1, Grade(), ())) == command()
    assert "the plan has no effect" in command(plan=Plan(4096, 1, Grade(), (), gpu_layers=20),
                                               manifest=without("--gpu-layers")).skipped[0]


@pytest.mark.parametrize("planned, words", [
    ({"cache_type_k": "q8_0", "cache_type_v": "q4_0"}, ["--cache-type-k", "q8_0", "--cache-type-v", "q4_0"]),
    ({"tensor_split": "20,13"}, ["--tensor-split", "20,13"]), ({"cpu_moe_n": 7}, ["--n-cpu-moe", "7"]),
    ({"cache_ram_mb": 2457}, ["--cache-ram", "2457"])])
def test_what_a_plan_replaces_becomes_flags(planned, words):
    made = command(planned).argv
    assert list(made[made.index(words[0]):][:len(words)]) == words
