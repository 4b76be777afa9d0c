"""A walk over every setting of the llama.cpp lane: the flag it becomes, and what real builds say of that flag."""

from dataclasses import replace
from pathlib import Path

import pytest

from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.config.registry import SETTINGS
from blazar.config.tables.overrides import FIELDS
from blazar.engines.embedded import build_parser
from blazar.engines.embedded_flags import SPECULATION
from blazar.engines.help_text import read_flags
from blazar.engines.lane import Launch
from blazar.engines.llama_speculation import types_of
from blazar.engines.llamacpp import LlamaCpp
from blazar.engines.manifest import Manifest
from blazar.engines.program import Program
from blazar.errors import ExtraArgsRefused, FlagMissing
from tests.support.programs import HELP

BUILDS = {name: Manifest(name, read_flags((HELP / f"llama-server-{name}.txt").read_text()))
          for name in ("b10434", "b11434")}
BUILDS["embedded"] = Manifest("embedded", read_flags(build_parser().format_help()))

ALWAYS = ("--ctx-size", "16384", "--parallel", "1", "--jinja")
SLEEP = ("--sleep-idle-seconds", "300")
WALK = {
    "server_timeout_secs": (7, "--timeout 7"),
    "idle_sleep_secs": (60, "--sleep-idle-seconds 60"),
    "agent": (True, "--agent"),
    "server_tools": ("get_info,read_file", "--tools get_info,read_file"),
    "server_tools_runtime": ("docker:debian", "--tools-runtime docker:debian"),
    "mcp_servers_config": ("/mcp.json", "--mcp-servers-config /mcp.json"),
    "cache_ram_mb": (100, "--cache-ram 100"),
    "numa": ("isolate", "--numa isolate"),
    "cache_type": ("q8_0", "--cache-type-k q8_0 --cache-type-v q8_0"),
    "cache_type_k": ("q5_1", "--cache-type-k q5_1 --cache-type-v q5_1"),
    "cache_type_v": ("iq4_nl", "--cache-type-k iq4_nl --cache-type-v iq4_nl"),
    "kv_unified": (False, "--no-kv-unified"),
    "kv_unified_per_slot": (128, "--kv-unified-per-slot 128"),
    "swa_full": (True, "--swa-full"),
    "ctx_checkpoints": (3, "--ctx-checkpoints 3"),
    "ctx_extend": (2.0, "--rope-scaling yarn --rope-scale 2.0 --yarn-orig-ctx 32768"),
    "no_kv_offload": (True, "--no-kv-offload"),
    "load_mode": ("direct-io", "--load-mode dio"),
    "keep_tokens": (5, "--keep 5"),
    "no_host": (True, "--no-host"),
    "context_shift": (True, "--context-shift"),
    "slot_prompt_similarity": (0.5, "--slot-prompt-similarity 0.5"),
    "cache_idle_slots": (False, "--no-cache-idle-slots"),
    "repack": (False, "--no-repack"),
    "batch_size": (1024, "--batch-size 1024"),
    "ubatch_size": (256, "--ubatch-size 256"),
    "cpu_moe_n": (2, "--n-cpu-moe 2"),
    "cpu_ffn_n": (3, "--n-cpu-ffn 3"),
    "spec": ("ngram", "--spec-type ngram-simple"),
    "spec_draft_cpu_range": ("0-1", "--spec-draft-cpu-range 0-1"),
    "spec_draft_cpu_strict": (True, "--spec-draft-cpu-strict 1"),
    "spec_draft_device": ("CUDA1", "--spec-draft-device CUDA1"),
    "spec_draft_ngl": (0, "--spec-draft-ngl 0"),
    "spec_draft_threads": (2, "--spec-draft-threads 2"),
    "spec_draft_prio": (0, "--spec-draft-prio 0"),
    "spec_draft_prio_batch": (1, "--spec-draft-prio-batch 1"),
    "spec_draft_cpu_strict_batch": (False, "--spec-draft-cpu-strict-batch 0"),
    "spec_draft_threads_batch": (2, "--spec-draft-threads-batch 2"),
    "spec_draft_type_k": ("q8_0", "--spec-draft-type-k q8_0"),
    "spec_draft_type_v": ("q8_0", "--spec-draft-type-v q8_0"),
    "spec_draft_override_tensor": ("x=CPU", "--spec-draft-override-tensor x=CPU"),
    "spec_draft_n_cpu_moe": (1, "--spec-draft-n-cpu-moe 1"),
    "spec_draft_cpu_moe": (True, "--spec-draft-cpu-moe"),
    "spec_draft_backend_sampling": (False, "--no-spec-draft-backend-sampling"),
    "spec_draft_p_min": (0.5, "--spec-draft-p-min 0.5"),
    "spec_draft_p_split": (0.2, "--spec-draft-p-split 0.2"),
    "spec_draft_poll": (50, "--spec-draft-poll 50"),
    "spec_draft_poll_batch": (0, "--spec-draft-poll-batch 0"),
    "ngram_mod_n_match": (8, "--spec-ngram-mod-n-match 8"),
    "ngram_mod_n_max": (9, "--spec-ngram-mod-n-max 9"),
    "ngram_mod_n_min": (7, "--spec-ngram-mod-n-min 7"),
    "lookup_cache_static": ("/s", "--lookup-cache-static /s"),
    "lookup_cache_dynamic": ("/d", "--lookup-cache-dynamic /d"),
    "reasoning": ("off", "--reasoning off"),
    "reasoning_format": ("deepseek-legacy", "--reasoning-format deepseek-legacy"),
    "reasoning_effort": ("low", '--chat-template-kwargs {"reasoning_effort":"low"}'),
    "reasoning_budget": (0, "--reasoning-budget 0"),
    "reasoning_budget_message": ("enough", "--reasoning-budget-message enough"),
    "mmproj_offload": (False, "--no-mmproj-offload"),
    "mmproj_device": ("CUDA0", "--mmproj-device CUDA0"),
    "image_max_tokens": (9, "--image-max-tokens 9"),
    "image_min_tokens": (2, "--image-min-tokens 2"),
    "mtmd_batch_max_tokens": (64, "--mtmd-batch-max-tokens 64"),
    "embd_normalize": (-1, "--embd-normalize -1"),
    "video_ffmpeg_dir": ("/f", "--video-ffmpeg-dir /f"),
    "video_fps": (0.5, "--video-fps 0.5"),
    "video_timestamp_interval": (2.5, "--video-timestamp-interval 2500"),
    "yarn_orig_ctx": (512, "--yarn-orig-ctx 512"),
    "yarn_ext_factor": (0.0, "--yarn-ext-factor 0.0"),
    "yarn_attn_factor": (1.0, "--yarn-attn-factor 1.0"),
    "yarn_beta_fast": (32.0, "--yarn-beta-fast 32.0"),
    "yarn_beta_slow": (1.0, "--yarn-beta-slow 1.0"),
    "cpu_range": ("0-1", "--cpu-range 0-1"),
    "cpu_strict": (True, "--cpu-strict 1"),
    "prio": (1, "--prio 1"),
    "prio_batch": (2, "--prio-batch 2"),
    "poll": (10, "--poll 10"),
    "poll_batch": (20, "--poll-batch 20"),
    "threads_http": (3, "--threads-http 3"),
    "threads_batch": (2, "--threads-batch 2"),
    "main_gpu": (0, "--main-gpu 0"),
    "split_mode": ("row", "--split-mode row"),
    "tensor_split": ("3,1", "--tensor-split 3,1"),
    "devices": (["CUDA0", "CUDA1"], "--device CUDA0,CUDA1"),
    "override_tensor": (["a=CPU", "b=CUDA0"], "--override-tensor a=CPU,b=CUDA0"),
    "tensor_preset": ("moe-cpu-offload", "--cpu-moe"),
    "op_offload": (False, "--no-op-offload"),
    "check_tensors": (True, "--check-tensors"),
    "sse_ping_interval": (-1, "--sse-ping-interval -1"),
    "chat_template_kwargs": ('{"a": 1}', '--chat-template-kwargs {"a":1}'),
    "cont_batching": (False, "--no-cont-batching"),
    "reuse_port": (True, "--reuse-port"),
    "lora_init_without_apply": (True, "--lora-init-without-apply"),
    "warmup": (False, "--no-warmup"),
    "samplers": ("top_k;top_p", "--samplers top_k;top_p"),
    "adaptive_target": (-1.0, "--adaptive-target -1.0"),
    "adaptive_decay": (50, "--adaptive-decay 0.5"),
    "rpc_servers": ("box:50052", "--rpc box:50052"),
    "lazy_mode": ("off", "--lazy-mode off"),
}
"""Setting: a value, and all that this value adds to argv."""
OTHERWISE = {"default_ctx", "slots"}
"""Flags that stand in every argv; tests/unit/engines/test_llamacpp.py looks at them."""
LACKS = {
    "b10434": {"lazy_mode", "kv_unified_per_slot", "cpu_ffn_n", "mmproj_device", "video_ffmpeg_dir", "video_fps",
               "video_timestamp_interval"},
    "b11434": set(),
    "embedded": {"devices", "rpc_servers", "spec_draft_n_cpu_moe", "spec_draft_cpu_moe"},
}
"""What each build does not have."""
REFUSED = {"rpc_servers", "server_tools_runtime"}
"""Settings without which nothing is loaded: a model that does not fit here, tools that would run on this machine."""


def command(settings, manifest=None, **launch):
    config = Config.from_dict(settings)
    return LlamaCpp(SETTINGS.values()).command(Launch(
        model="solo:q4_0", file=Path("/m"), facts={"format": "gguf", "context_length": 32768},
        settings=effective(config, "solo:q4_0"), program=Program("llamacpp", ("llama-server",), "PATH"),
        secret_file=None, manifest=manifest, **launch))


def added(settings, manifest=None, **launch):
    """What `settings` add to argv; values with spaces are written without them, to compare with a text."""
    words = list(command(settings, manifest, **launch).argv)
    plain = [*command({}).argv]
    for word in ("--model", "/m", "--alias", "solo:q4_0", "--jinja"):
        assert word in words
    start = plain.index("--sleep-idle-seconds")
    rest = words[start:]
    if "idle_sleep_secs" not in settings:
        place = rest.index("--sleep-idle-seconds")
        rest = rest[:place] + rest[place + 2:]
    return " ".join(word.replace(" ", "") for word in rest)


def test_no_setting_is_left_out():
    assert {name for name, one in SETTINGS.items() if one.flag} <= set(WALK) | OTHERWISE


@pytest.mark.parametrize("name", WALK)
def test_each_setting_becomes_its_flag(name):
    value, expected = WALK[name]
    assert added({name: value}) == expected


@pytest.mark.parametrize("name", [name for name in WALK if SETTINGS[name].overlay])
def test_each_field_of_an_override_becomes_its_flag(name):
    value, expected = WALK[name]
    assert added({"model_overrides": {"solo": {SETTINGS[name].overlay: value}}}) == expected


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", WALK)
def test_real_builds_have_each_flag_or_the_gate_says_so(name, build):
    value, expected = WALK[name]
    if name not in LACKS[build]:
        assert added({name: value}, BUILDS[build]) == expected
        assert all(BUILDS[build].has(word) for word in expected.split() if word.startswith("--"))
    elif name in REFUSED:
        with pytest.raises(FlagMissing, match=name):
            command({name: value}, BUILDS[build])
    else:
        assert added({name: value}, BUILDS[build]) == ""
        assert f"{name} has no effect" in command({name: value}, BUILDS[build]).skipped[0]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_would_be_unsafe_or_useless_without_its_flag_is_refused(name):
    known = {flag: one for flag, one in BUILDS["b11434"].flags.items() if flag != SETTINGS[name].flag}
    with pytest.raises(FlagMissing, match=name):
        command({name: WALK[name][0]}, Manifest("x", known))


def test_all_together_on_the_newest_build():
    settings = {name: value for name, (value, _) in WALK.items()
                if name not in ("cache_type_k", "cache_type_v", "devices")} | {"slots": 2}
    made = command(settings, BUILDS["b11434"])
    assert made.skipped == ()
    flags = [word for word in made.argv if word.startswith("--")]
    assert sorted(set(flags)) == sorted(flags)


ADDS = {
    "chat_template": ("chatml", "--chat-template chatml"),
    "chat_template_file": ("/t.jinja", "--chat-template-file /t.jinja"),
    "spm_infill": (True, "--spm-infill"),
    "mmproj": ("/p", "--mmproj /p"),
    "loras": ([{"path": "/a"}, {"path": "/b", "scale": 0.5}, {"path": "/c", "scale": -1.0}],
              "--lora /a --lora-scaled /b:0.5,/c:-1.0"),
    "extra_args": (["--no-perf", "--top-k", "7"], "--no-perf --top-k 7"),
}


@pytest.mark.parametrize("field", ADDS)
def test_fields_that_only_an_override_has(field):
    assert field in {one.name for one in FIELDS}
    value, expected = ADDS[field]
    assert added({"model_overrides": {"solo": {field: value}}}) == expected
    assert added({"model_overrides": {"other": {field: value}}}) == ""


def test_one_slot_for_repeatable_answers():
    assert "--parallel 1" in " ".join(command({"model_overrides": {"solo": {"deterministic": True}}}).argv)


def test_several_slots_share_one_pool_unless_told_otherwise():
    assert "--kv-unified" in command({"slots": 2}).argv
    assert "--kv-unified" not in command({"slots": 2, "kv_unified": False}).argv
    assert command({"slots": 2, "kv_unified": True}).argv.count("--kv-unified") == 1


def test_a_stretched_context_may_be_longer_than_the_trained_one():
    made = command({"ctx_extend": 2.0, "default_ctx": 100000})
    assert made.ctx == 65536
    assert "--yarn-orig-ctx 4096" in added({"ctx_extend": 2.0, "yarn_orig_ctx": 4096})


def test_effort_is_one_of_the_templates_values():
    settings = {"reasoning_effort": "low", "chat_template_kwargs": '{"x": [1], "reasoning_effort": "max"}'}
    assert added(settings) == '--chat-template-kwargs {"reasoning_effort":"max","x":[1]}'


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, "/beside"), ({"mmproj_auto": False}, None), ({"mmproj_policy": "skip"}, None),
    ({"mmproj_policy": "attach"}, "/beside"), ({"mmproj_policy": False}, None),
    ({"mmproj_auto": False, "model_overrides": {"solo": {"mmproj": "/named"}}}, "/named"),
    ({"model_overrides": {"solo": {"extra_args": ["-mm", "/own"]}}}, None)])
def test_which_projector_is_used(settings, expected):
    words = command(settings, BUILDS["b11434"], companions=(("projector", Path("/beside")),)).argv
    found = words[words.index("--mmproj") + 1] if "--mmproj" in words else None
    assert found == expected


DRAFT = (("draft", Path("/draft")),)


@pytest.mark.parametrize(("settings", "companions", "expected", "skipped"), [
    ({"spec": "off"}, DRAFT, "", None), ({"spec": "auto"}, DRAFT, "", None),
    ({"spec": "mtp"}, (), "--spec-type draft-mtp", None),
    ({"spec": "mtp"}, DRAFT, "--spec-type draft-mtp --spec-draft-model /draft", None),
    ({"spec": "mtp-adaptive"}, (), "", "not draft-mtp-adaptive"),
    ({"spec": "eagle3"}, DRAFT, "--spec-type draft-eagle3 --spec-draft-model /draft", None),
    ({"spec": "eagle3"}, (), "", 'spec = "eagle3" has no effect: there is no draft beside the model'),
    ({"spec": "dflash"}, DRAFT, "--spec-type draft-dflash --spec-draft-model /draft", None),
    ({"spec": "dspark"}, DRAFT, "--spec-type draft-dspark --spec-draft-model /draft", None),
    ({"spec": "ngram-mod"}, DRAFT, "--spec-type ngram-mod", None),
    ({"spec": "ngram-cache"}, (), "--spec-type ngram-cache", None),
    ({"spec": "ngram", "ngram_size_n": 3, "ngram_size_m": 4, "ngram_min_hits": 2}, (),
     "--spec-type ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 4 "
     "--spec-ngram-simple-min-hits 2", None),
    ({"spec": "ngram-map-k", "ngram_size_n": 3}, (), "--spec-type ngram-map-k --spec-ngram-map-k-size-n 3", None),
    ({"spec": "ngram-map-k4v", "ngram_min_hits": 3}, (),
     "--spec-type ngram-map-k4v --spec-ngram-map-k4v-min-hits 3", None),
    ({"spec": "ngram-mod", "ngram_size_n": 3}, (), "--spec-type ngram-mod", "ngram_size_n has no effect with"),
    ({"spec": "ngram-mod", "spec_auto_manage": True}, (), "--spec-type ngram-mod", None),
    ({"spec": "off", "spec_auto_manage": True}, (), "", None),
    ({"ngram_min_hits": 3}, (), "", 'ngram_min_hits has no effect with spec = "auto"'),
])
def test_families_of_speculation(settings, companions, expected, skipped):
    assert added(settings, BUILDS["b11434"], companions=companions) == expected
    sentences = command(settings, BUILDS["b11434"], companions=companions).skipped
    assert (skipped is None and not sentences) or skipped in sentences[0]


def drafting(manifest, **settings):
    """The flags of a draft that the plan has chosen."""
    words = LlamaCpp(SETTINGS.values()).command(Launch(
        model="solo", file=Path("/m"), facts={"format": "gguf"}, program=Program("llamacpp", ("x",), "PATH"),
        settings={"spec": "draft", "idle_sleep_secs": 0, **settings}, secret_file=None, manifest=manifest,
        companions=DRAFT, lookup_cache=Path("/data/speccache/solo"))).argv
    return " ".join(words[words.index("--jinja") + 1:])


def fewer(*gone):
    return Manifest("x", {name: flag for name, flag in BUILDS["b11434"].flags.items() if name not in gone})


@pytest.mark.parametrize(("manifest", "settings", "expected"), [
    (BUILDS["b11434"], {}, "--spec-type draft-simple --spec-draft-model /draft"),
    (BUILDS["b10434"], {}, "--spec-type draft-simple --spec-draft-model /draft"),
    (fewer("--spec-type", "--spec-draft-model"), {}, "--model-draft /draft"),
    (BUILDS["b11434"], {"spec": "ngram-mod"}, "--spec-type ngram-mod --lookup-cache-dynamic /data/speccache/solo"),
    (fewer("--lookup-cache-dynamic"), {"spec": "ngram-mod"}, "--spec-type ngram-mod"),
    (BUILDS["b11434"], {"spec": "ngram-mod", "extra_args": ["-lcd", "/own"]}, "--spec-type ngram-mod -lcd /own"),
    (BUILDS["b11434"], {"spec": "eagle3"}, "--spec-type draft-eagle3 --spec-draft-model /draft")])
def test_what_the_plan_has_chosen(manifest, settings, expected):
    assert drafting(manifest, **settings) == expected


def test_a_build_that_has_the_adaptive_head_is_told_how_far_to_draft():
    flags = dict(BUILDS["b11434"].flags)
    kinds = flags["--spec-type"]
    flags["--spec-type"] = replace(kinds, choices=(*kinds.choices, "draft-mtp-adaptive"))
    assert drafting(Manifest("x", flags), spec="mtp-adaptive") == (
        "--spec-type draft-mtp-adaptive --spec-draft-model /draft --spec-draft-n-max 8")


@pytest.mark.parametrize(("manifest", "expected"), [
    (Manifest(), None), (fewer("--spec-type"), ()), (BUILDS["b11434"], (
        "none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark", "ngram-simple",
        "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")), (BUILDS["embedded"], SPECULATION)])
def test_the_types_that_a_build_offers(manifest, expected):
    assert types_of(manifest) == expected


def test_servers_that_may_hold_secrets_stand_in_the_environment():
    made = command({"mcp_servers_json": '{"mcpServers": {}}', "engine_env": {"A": "1"}}, BUILDS["b11434"])
    assert made.env == {"A": "1", "LLAMA_ARG_MCP_SERVERS_JSON": '{"mcpServers": {}}'}
    assert "mcpServers" not in " ".join(made.argv)
    flags = {name: one for name, one in BUILDS["b11434"].flags.items() if name != "--mcp-servers-json"}
    older = command({"mcp_servers_json": '{"mcpServers": {}}'}, Manifest("x", flags))
    assert older.env == {} and "mcp_servers_json has no effect" in older.skipped[0]


def extra(*words, manifest=BUILDS["b11434"], **settings):
    return command({**settings, "model_overrides": {"solo": {"extra_args": list(words)}}}, manifest).argv


@pytest.mark.parametrize(("words", "gone"), [
    (("--no-jinja",), "--jinja"), (("--sleep-idle-seconds", "9"), None), (("-kvu",), "--kv-unified"),
    (("--override-kv", "a=int:1", "--override-kv", "b=int:2"), None), (("--temp", "-1"), None)])
def test_extra_flags_come_last_and_take_the_place_of_ours(words, gone):
    argv = extra(*words, slots=2)
    assert argv[-len(words):] == words
    assert gone not in argv and argv.count("--sleep-idle-seconds") == 1


@pytest.mark.parametrize(("words", "settings", "problem"), [
    (("-b", "64"), {"batch_size": 32}, "-b in its extra_args is given by batch_size already; keep batch_size, or"),
    (("--kv-unified",), {"kv_unified": False}, "--kv-unified in its extra_args is given by kv_unified already"),
    (("--top-k", "7", "--top-k", "8"), {}, "--top-k in its extra_args stands there twice; keep one"),
    (("-b", "7", "--batch-size", "8"), {}, "--batch-size in its extra_args stands there twice"),
    (("--no-perf", "yes"), {}, "--no-perf in its extra_args takes no value, and yes follows"),
    (("--top-k", "--no-perf"), {}, "--top-k in its extra_args needs a value; write it as the next word"),
    (("--temp",), {}, "--temp in its extra_args needs a value"),
    (("--temp", "1", "-"), {}, "--temp in its extra_args takes one value, and - follows too; remove -"),
    (("--batch_size", "64"), {"batch_size": 32}, "--batch-size in its extra_args is given by batch_size already"),
    (("--top_k", "7", "--top-k", "8"), {}, "--top-k in its extra_args stands there twice")])
def test_extra_flags_that_cannot_be_meant(words, settings, problem):
    with pytest.raises(ExtraArgsRefused) as caught:
        extra(*words, **settings)
    assert caught.value.message.startswith(f"solo:q4_0 did not load: {problem}")


def test_extra_flags_are_read_as_the_engine_reads_them():
    assert extra("--top_k", "7")[-2:] == ("--top-k", "7") and extra("--temp", "a_b")[-1] == "a_b"
    assert extra("--control-vector-layer-range", "1", "9")[-3:] == ("--control-vector-layer-range", "1", "9")


def test_a_misspelled_extra_flag_is_refused_before_anything_starts():
    with pytest.raises(FlagMissing, match=r"--topk in extra_args needs another engine, since .* has no --topk: mend"):
        extra("--topk", "7")
    assert extra("--topk", "7", manifest=None)[-2:] == ("--topk", "7")
