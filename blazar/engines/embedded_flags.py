"""The flags of the embedded engine, and where xllamacpp's CommonParams takes each: tables, and what they cannot say."""

import argparse
import os
from collections.abc import Mapping, Sequence
from json import dumps
from typing import Any

PLAIN = [
    # flags, attribute of CommonParams, type, help
    (("-c", "--ctx-size"), "n_ctx", int, "tokens of context, shared by all slots (0 = as the model was trained)"),
    (("-np", "--parallel"), "n_parallel", int, "slots: requests served at the same time"),
    (("-b", "--batch-size"), "n_batch", int, "tokens handed to the engine in one logical batch"),
    (("-ub", "--ubatch-size"), "n_ubatch", int, "tokens computed in one physical batch"),
    (("-n", "--predict"), "n_predict", int, "most tokens an answer may have (-1 = no limit)"),
    (("--keep",), "n_keep", int, "tokens of the beginning that stay when the context is shifted (-1 = all)"),
    (("-ngl", "--n-gpu-layers"), "n_gpu_layers", int, "layers kept on the GPU (-1 = as many as fit)"),
    (("-mg", "--main-gpu"), "main_gpu", int, "number of the GPU for what is not split"),
    (("--cache-ram",), "cache_ram_mib", int, "MiB of memory for cached prompts"),
    (("--cache-reuse",), "n_cache_reuse", int, "shortest run of tokens re-used from a cached prompt"),
    (("--ctx-checkpoints",), "n_ctx_checkpoints", int, "context checkpoints of a slot"),
    (("--kv-unified-per-slot",), "kv_unified_per_slot", int, "most tokens of the shared KV buffer for one slot"),
    (("-sps", "--slot-prompt-similarity"), "slot_prompt_similarity", float, "share of a prompt that picks its slot"),
    (("--slot-save-path",), "slot_save_path", str, "folder, ending in /, where slots are saved"),
    (("--sleep-idle-seconds",), "sleep_idle_seconds", int, "seconds without a request until memory is given back"),
    (("-t", "--threads"), "cpuparams.n_threads", int, "threads that compute"),
    (("-tb", "--threads-batch"), "cpuparams_batch.n_threads", int, "threads that compute prompts"),
    (("--threads-http",), "n_threads_http", int, "threads that serve HTTP"),
    (("--poll",), "cpuparams.poll", int, "how eagerly threads wait for work, 0 to 100"),
    (("--poll-batch",), "cpuparams_batch.poll", int, "the same for threads that compute prompts"),
    (("-to", "--timeout"), "timeout_read timeout_write", int, "seconds a read or a write may take"),
    (("--sse-ping-interval",), "sse_ping_interval", int, "seconds between comments in a quiet stream (-1 = none)"),
    (("-lv", "--verbosity"), "verbosity", int, "how much is logged"),
    (("--chat-template",), "chat_template", str, "chat template, or the name of a built-in one"),
    (("--reasoning-budget",), "sampling.reasoning_budget_tokens", int, "most tokens of thought (-1 = no limit)"),
    (("--reasoning-budget-message",), "sampling.reasoning_budget_message", str, "text at the end of cut thoughts"),
    (("--samplers",), "sampling.samplers", str, "samplers in their order, separated by ;"),
    (("--adaptive-target",), "sampling.adaptive_target", float, "probability adaptive-p aims at (-1 = off)"),
    (("--adaptive-decay",), "sampling.adaptive_decay", float, "how slowly adaptive-p forgets"),
    (("--embd-normalize",), "embd_normalize", int, "norm of embeddings"),
    (("--yarn-orig-ctx",), "yarn_orig_ctx", int, "YaRN: context the model was trained with"),
    (("--yarn-ext-factor",), "yarn_ext_factor", float, "YaRN: mix of extrapolation"),
    (("--yarn-attn-factor",), "yarn_attn_factor", float, "YaRN: scale of the attention"),
    (("--yarn-beta-fast",), "yarn_beta_fast", float, "YaRN: low correction dimension"),
    (("--yarn-beta-slow",), "yarn_beta_slow", float, "YaRN: high correction dimension"),
    (("-mm", "--mmproj"), "mmproj.path", str, "file that projects images or audio into the model"),
    (("--mmproj-device",), "mmproj_device", str, "device of the projector"),
    (("--image-min-tokens",), "image_min_tokens", int, "fewest tokens of an image"),
    (("--image-max-tokens",), "image_max_tokens", int, "most tokens of an image"),
    (("--mtmd-batch-max-tokens",), "mtmd_batch_max_tokens", int, "image tokens encoded at a time"),
    (("--video-fps",), "video_fps", float, "frames taken from a second of video"),
    (("--video-timestamp-interval",), "video_timestamp_interval_ms", int, "milliseconds between two time marks"),
    (("--video-ffmpeg-dir",), "video_ffmpeg_bin_dir", str, "folder with ffmpeg and ffprobe"),
    (("--spec-draft-model", "-md"), "speculative.draft.mparams.path", str, "draft model"),
    (("--spec-draft-n-max",), "speculative.draft.n_max", int, "most tokens drafted"),
    (("--spec-draft-n-min",), "speculative.draft.n_min", int, "fewest tokens drafted"),
    (("--spec-draft-p-min",), "speculative.draft.p_min", float, "probability under which drafting stops"),
    (("--spec-draft-p-split",), "speculative.draft.p_split", float, "probability at which a draft branches"),
    (("--spec-draft-ngl",), "speculative.draft.n_gpu_layers", int, "layers of the draft kept on the GPU"),
    (("--spec-draft-device",), "speculative.draft.devices", str, "devices of the draft"),
    (("--spec-draft-override-tensor",), "speculative.draft.tensor_buft_overrides", str, "pattern=device pairs"),
    (("--spec-draft-threads",), "speculative.draft.cpuparams.n_threads", int, "threads that draft"),
    (("--spec-draft-threads-batch",), "speculative.draft.cpuparams_batch.n_threads", int, "and that read prompts"),
    (("--spec-draft-poll",), "speculative.draft.cpuparams.poll", int, "how eagerly they wait"),
    (("--spec-draft-poll-batch",), "speculative.draft.cpuparams_batch.poll", int, "the same for prompts"),
    (("--spec-ngram-mod-n-match",), "speculative.ngram_mod.n_match", int, "ngram-mod: length of the match"),
    (("--spec-ngram-mod-n-max",), "speculative.ngram_mod.n_max", int, "ngram-mod: most tokens drafted"),
    (("--spec-ngram-mod-n-min",), "speculative.ngram_mod.n_min", int, "ngram-mod: fewest tokens drafted"),
    (("-lcs", "--lookup-cache-static"), "speculative.ngram_cache.lookup_cache_static", str, "n-grams, only read"),
    (("-lcd", "--lookup-cache-dynamic"), "speculative.ngram_cache.lookup_cache_dynamic", str, "n-grams, kept up"),
    (("--tools-runtime",), "server_tools_runtime", str, "where tools run: docker:, podman:, ssh:"),
    (("--mcp-servers-config",), "mcp_servers_config", str, "file with MCP servers to start"),
]
PLAIN += [((f"--spec-{name.replace('_', '-')}-{end}",), f"speculative.{name}.{field}", int, text)
          for name in ("ngram_simple", "ngram_map_k", "ngram_map_k4v")
          for end, field, text in (("size-n", "size_n", "length of the n-gram looked up"),
                                   ("size-m", "size_m", "tokens drafted"),
                                   ("min-hits", "min_hits", "hits before it is used"))]

SWITCHES = [
    # flags, attribute of CommonParams, value when given, help
    (("--embeddings", "--embedding"), "embedding", True, "serve embeddings"),
    (("--metrics",), "endpoint_metrics", True, "serve /metrics"),
    (("--props",), "endpoint_props", True, "allow changing /props"),
    (("--slots",), "endpoint_slots", True, "serve /slots (this is the default)"),
    (("--no-slots",), "endpoint_slots", False, "do not serve /slots"),
    (("--jinja",), "use_jinja", True, "render chat templates with jinja (this is the default)"),
    (("--no-jinja",), "use_jinja", False, "do not render chat templates with jinja"),
    (("--no-webui", "--no-ui"), "ui", False, "no web page (there is none inside anyway)"),
    (("--warmup",), "warmup", True, "warm up before the first request (this is the default)"),
    (("--no-warmup",), "warmup", False, "do not warm up before the first request"),
    (("-kvu", "--kv-unified"), "kv_unified", True, "one KV buffer for all slots"),
    (("-no-kvu", "--no-kv-unified"), "kv_unified", False, "a KV buffer for each slot"),
    (("-nkvo", "--no-kv-offload"), "no_kv_offload", True, "keep the KV cache in RAM"),
    (("--swa-full",), "swa_full", True, "full-size cache for sliding-window attention"),
    (("--context-shift",), "ctx_shift", True, "shift a full context"),
    (("--no-context-shift",), "ctx_shift", False, "end at a full context (this is the default)"),
    (("-cb", "--cont-batching"), "cont_batching", True, "take requests into a running batch (this is the default)"),
    (("-nocb", "--no-cont-batching"), "cont_batching", False, "finish a batch first"),
    (("--cache-idle-slots",), "cache_idle_slots", True, "save idle slots to the prompt cache (this is the default)"),
    (("--no-cache-idle-slots",), "cache_idle_slots", False, "do not save idle slots to the prompt cache"),
    (("--repack",), "no_extra_bufts", False, "rearrange weights (this is the default)"),
    (("-nr", "--no-repack"), "no_extra_bufts", True, "leave weights as they are"),
    (("--no-host",), "no_host", True, "no host buffer"),
    (("--op-offload",), "no_op_offload", False, "compute on the GPU with weights in RAM (this is the default)"),
    (("--no-op-offload",), "no_op_offload", True, "compute where the weights are"),
    (("--check-tensors",), "check_tensors", True, "look for invalid numbers in the weights"),
    (("--mmproj-offload",), "mmproj_use_gpu", True, "projector on the GPU (this is the default)"),
    (("--no-mmproj-offload",), "mmproj_use_gpu", False, "projector in RAM"),
    (("--lora-init-without-apply",), "lora_init_without_apply", True, "load adapters without applying them"),
    (("--spec-draft-backend-sampling",), "speculative.draft.backend_sampling", True, "sample where drafted"),
    (("--no-spec-draft-backend-sampling",), "speculative.draft.backend_sampling", False, "sample on the CPU"),
    (("--reuse-port",), "reuse_port", True, "let several processes listen on one port"),
]

GRADES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
PRIORITIES = {"-1": "LOW", "0": "NORMAL", "1": "MEDIUM", "2": "HIGH", "3": "REALTIME"}


def _same(*words: str) -> dict[str, str]:
    return {word: word.upper().replace("-", "_") for word in words}


ENUMS = [
    # flags, attribute, enumeration of xllamacpp, its prefix, its names by our words, help
    (("-ctk", "--cache-type-k"), "cache_type_k", "ggml_type", "GGML_TYPE_", _same(*GRADES), "grade of the keys"),
    (("-ctv", "--cache-type-v"), "cache_type_v", "ggml_type", "GGML_TYPE_", _same(*GRADES), "grade of the values"),
    (("--spec-draft-type-k", "-ctkd"), "speculative.draft.cache_type_k", "ggml_type", "GGML_TYPE_", _same(*GRADES),
     "grade of the draft's keys"),
    (("--spec-draft-type-v", "-ctvd"), "speculative.draft.cache_type_v", "ggml_type", "GGML_TYPE_", _same(*GRADES),
     "grade of the draft's values"),
    (("--pooling",), "pooling_type", "llama_pooling_type", "LLAMA_POOLING_TYPE_",
     _same("none", "mean", "cls", "last", "rank"), "how embeddings are pooled"),
    (("--rope-scaling",), "rope_scaling_type", "llama_rope_scaling_type", "LLAMA_ROPE_SCALING_TYPE_",
     _same("none", "linear", "yarn"), "how positions are stretched"),
    (("-fa", "--flash-attn"), "flash_attn_type", "llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_",
     {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}, "flash attention"),
    (("-sm", "--split-mode"), "split_mode", "llama_split_mode", "LLAMA_SPLIT_MODE_",
     _same("none", "layer", "row", "tensor"), "how a model is spread over GPUs"),
    (("-lm", "--load-mode"), "load_mode", "llama_load_mode", "LLAMA_LOAD_MODE_",
     {**_same("auto", "none", "mmap", "mlock"), "mmap+mlock": "MMAP_MLOCK", "dio": "DIRECT_IO"}, "how it is read"),
    (("-lzm", "--lazy-mode"), "lazy_mode", "llama_lazy_mode", "LLAMA_LAZY_MODE_", _same("on", "auto", "off"),
     "whether parts are read when they are needed"),
    (("--numa",), "numa", "ggml_numa_strategy", "GGML_NUMA_STRATEGY_", _same("distribute", "isolate", "numactl"),
     "placement on several memory nodes"),
    (("--reasoning-format",), "reasoning_format", "common_reasoning_format", "COMMON_REASONING_FORMAT_",
     _same("none", "auto", "deepseek", "deepseek-legacy"), "where thoughts are put"),
    *((flags, attribute, "ggml_sched_priority", "GGML_SCHED_PRIO_", PRIORITIES, "priority of threads")
      for flags, attribute in ((("--prio",), "cpuparams.priority"), (("--prio-batch",), "cpuparams_batch.priority"),
                               (("--spec-draft-prio",), "speculative.draft.cpuparams.priority"),
                               (("--spec-draft-prio-batch",), "speculative.draft.cpuparams_batch.priority"))),
]

CPU_SETS = [
    # flags for a range, attribute
    (("-Cr", "--cpu-range"), "cpuparams"), (("-Crb", "--cpu-range-batch"), "cpuparams_batch"),
    (("--spec-draft-cpu-range", "-Crd"), "speculative.draft.cpuparams"),
]
STRICT = [
    (("--cpu-strict",), "cpuparams"), (("--cpu-strict-batch",), "cpuparams_batch"),
    (("--spec-draft-cpu-strict",), "speculative.draft.cpuparams"),
    (("--spec-draft-cpu-strict-batch",), "speculative.draft.cpuparams_batch"),
]
SPECULATION = ("none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark", "ngram-simple",
               "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
THINKING = {"auto": -1, "off": 0, "on": 1}
EXPERTS = r"ffn_(up|down|gate|gate_up)_(ch|)exps"
FEED_FORWARD = r"ffn_(up|down|gate)\.weight"


def add_flags(parser: argparse.ArgumentParser) -> None:
    for flags, attribute, kind, text in PLAIN:
        parser.add_argument(*flags, dest=attribute, type=kind, metavar="TEXT" if kind is str else "N", help=text)
    for flags, attribute, value, text in SWITCHES:
        parser.add_argument(*flags, dest=attribute, action="store_const", const=value, help=text)
    for flags, attribute, _enum, _prefix, words, text in ENUMS:
        parser.add_argument(*flags, dest=attribute, choices=tuple(words), help=text)
    for flags, attribute in CPU_SETS:
        parser.add_argument(*flags, dest=f"{attribute} range", type=_cpus, metavar="LO-HI", help="CPUs to run on")
    for flags, attribute in STRICT:
        parser.add_argument(*flags, dest=f"{attribute} strict", type=int, choices=(0, 1), help="one CPU each thread")
    parser.add_argument("--spec-type", type=_speculation, metavar=",".join(SPECULATION),
                        help="kinds of speculative decoding, separated by commas")
    parser.add_argument("-rea", "--reasoning", choices=tuple(THINKING), help="whether the model thinks")
    parser.add_argument("--rope-scale", type=float, metavar="N", help="factor by which the context is stretched")
    parser.add_argument("-ts", "--tensor-split", type=_shares, metavar="N0,N1,...", help="share of each GPU")
    parser.add_argument("-ot", "--override-tensor", metavar="PATTERN=DEVICE,...", help="devices of single tensors")
    parser.add_argument("-cmoe", "--cpu-moe", action="store_true", help="all experts in RAM")
    parser.add_argument("-ncmoe", "--n-cpu-moe", type=int, metavar="N", help="experts of the first N layers in RAM")
    parser.add_argument("-ncffn", "--n-cpu-ffn", type=int, metavar="N", help="feed-forward of the first N in RAM")
    parser.add_argument("--tools", help="tools that the engine runs itself: names with commas, or all")
    parser.add_argument("-ag", "--agent", action="store_true", help="all tools, and a way through CORS")
    parser.add_argument("--mcp-servers-json", default=os.environ.get("LLAMA_ARG_MCP_SERVERS_JSON"),
                        help="MCP servers to start, as JSON")


def fill_in(params: Any, options: argparse.Namespace, engine: Any) -> None:
    """Write what was given into `params`; `engine` is the module with xllamacpp's enumerations."""
    given = vars(options)
    for _flags, attributes, *_rest in (*PLAIN, *SWITCHES):
        for attribute in attributes.split():
            _put(params, attribute, given[attributes])
    for _flags, attribute, enum, prefix, words, _text in ENUMS:
        if given[attribute] is not None:
            _put(params, attribute, getattr(getattr(engine, enum), prefix + words[given[attribute]]))
    for _flags, attribute in CPU_SETS:
        if given[f"{attribute} range"]:
            low, high = given[f"{attribute} range"]
            _put(params, f"{attribute}.cpumask", [low <= number <= high for number in range(512)])
            _put(params, f"{attribute}.mask_valid", True)
    for _flags, attribute in STRICT:
        strict = given[f"{attribute} strict"]
        _put(params, f"{attribute}.strict_cpu", None if strict is None else bool(strict))
    _fill_rest(params, options, engine)


def _fill_rest(params: Any, options: argparse.Namespace, engine: Any) -> None:
    if options.spec_type:
        names = [f"COMMON_SPECULATIVE_TYPE_{word.upper().replace('-', '_')}" for word in options.spec_type]
        _put(params, "speculative.types", [getattr(engine.common_speculative_type, name) for name in names])
        _put(params, "load_mtp", "draft-mtp" in options.spec_type or None)
    if options.reasoning:
        params.enable_reasoning = THINKING[options.reasoning]
    if options.rope_scale:
        params.rope_freq_scale = 1 / options.rope_scale
    if options.tensor_split:
        params.tensor_split = [*options.tensor_split, *[0.0] * (128 - len(options.tensor_split))]
    places = [*([f"{EXPERTS}=CPU"] if options.cpu_moe else []),
              *(rf"blk\.{layer}\.{EXPERTS}=CPU" for layer in range(options.n_cpu_moe or 0)),
              *(rf"blk\.{layer}\.{FEED_FORWARD}=CPU" for layer in range(options.n_cpu_ffn or 0)),
              *([options.override_tensor] if options.override_tensor else [])]
    if places:
        params.tensor_buft_overrides = ",".join(places)
    if options.agent or options.tools:
        params.server_tools = ["all"] if options.agent else options.tools.split(",")
        params.ui_mcp_proxy = options.agent
    _put(params, "mcp_servers_json", options.mcp_servers_json)
    if options.agent or options.tools or options.mcp_servers_json or vars(options)["mcp_servers_config"]:
        params.cors_origins = "localhost"


def template_values(values: Mapping[str, Any]) -> dict[str, str]:
    """What a chat template is given, in the form of CommonParams: each value as JSON."""
    return {name: dumps(value) for name, value in values.items()}


def _put(params: Any, attribute: str, value: Any) -> None:
    """Set a dotted attribute; None was not given and leaves it."""
    if value is None:
        return
    *path, last = attribute.split(".")
    for name in path:
        params = getattr(params, name)
    setattr(params, last, value)


def _cpus(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high)


def _shares(text: str) -> Sequence[float]:
    return [float(share) for share in text.split(",")]


def _speculation(text: str) -> Sequence[str]:
    words = text.split(",")
    unknown = [word for word in words if word not in SPECULATION]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(SPECULATION)}")
    return words
