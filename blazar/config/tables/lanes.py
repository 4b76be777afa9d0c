"""[sglang], [mlx], [mistralrs]: tuning of single lanes"""

from typing import Any

from blazar.config.refusal import Refusal, show
from blazar.config.setting import Setting
from blazar.config.types import Bool, Choice, File, Float, Int, Json, OneOf, Text, Type

WORD = Text(r"[A-Za-z0-9_.-]+", like="one word", empty=False)


class QuantBits(Type):
    """2 to 8; kept as text, as the engine takes it."""

    toml_type = "str"

    def check(self, value: Any) -> str:
        if str(value) not in tuple("2345678"):
            raise Refusal(f"{show(value)} is not a number of bits", f"write {self.describe()}")
        return str(value)

    def describe(self) -> str:
        return "a whole number from 2 to 8"


def defaults(fields: tuple[Setting, ...]) -> dict[str, Any]:
    return {field.name: field.default for field in fields}


SGLANG = (
    Setting("cache_report", Bool(), True,
            doc="Report how many prompt tokens came from the cache."),
    Setting("radix_eviction_policy", Choice("lru", "lfu", "slru", "priority"), None,
            doc="What the prefix cache drops first."),
    Setting("session_radix_cache", Bool(), None,
            doc="Keep prefixes by session."),
    Setting("mixed_chunk", Bool(), None,
            doc="Mix prompt chunks with decoding in a batch."),
    Setting("mem_fraction_static", Float(0, 1, above=True), None,
            doc="Share of GPU memory for weights and KV cache; set, it wins over what Blazar computes."),
    Setting("kv_cache_dtype", WORD, None,
            doc="Precision of the KV cache; set, it wins over what Blazar computes."),
    Setting("spec_algorithm", Choice("ngram"), None,
            doc="Speculation without a draft model; unset = none."),
    Setting("spec_num_steps", Int(1, 1024), None,
            doc="Steps drafted ahead."),
    Setting("spec_num_draft_tokens", Int(1, 1024), None,
            doc="Tokens drafted ahead."),
    Setting("attention_backend", WORD, None,
            doc="Attention kernels."),
    Setting("speculative_eagle_topk", Int(1, 1024), None,
            doc="Branches of an EAGLE draft at each step."),
    Setting("speculative_accept_threshold_single", Float(0, 1), None,
            doc="Probability from which one drafted token is accepted."),
    Setting("speculative_accept_threshold_acc", Float(0, 1), None,
            doc="Accumulated probability from which drafted tokens are accepted."),
    Setting("mm_attention_backend", WORD, None,
            doc="Attention kernels for images."),
    Setting("grammar_backend", WORD, None,
            doc="What enforces grammars."),
    Setting("retraction_policy", Choice("length", "priority"), None,
            doc="Which request steps back when memory is short."),
    Setting("enable_priority_scheduling", Bool(), None,
            doc="Serve requests by priority."),
    Setting("enable_two_batch_overlap", Bool(), None,
            doc="Overlap two batches."),
    Setting("enable_tf32_matmul", Bool(), None,
            doc="Multiply with TF32."),
    Setting("tp_size", Int(1, 1024), None,
            doc="GPUs that share each layer."),
    Setting("dp_size", Int(1, 1024), None,
            doc="Copies that share the requests."),
    Setting("pp_size", Int(1, 1024), None,
            doc="GPUs that hold the layers one after the other."),
    Setting("ep_size", Int(1, 1024), None,
            doc="GPUs that share the experts."),
)

MLX = (
    Setting("draft_model", Text(empty=False), None,
            doc="Draft model for speculation."),
    Setting("num_draft_tokens", Int(1, 1024), None,
            doc="Tokens drafted ahead."),
    Setting("kv_bits", Int(2, 8), None,
            doc="Bits of the KV cache; set, the engine serves one request at a time."),
    Setting("kv_group_size", Int(1, 1024), None,
            doc="Values that share a scale in a quantised KV cache."),
    Setting("quantized_kv_start", Int(0), None,
            doc="Token from which the KV cache is quantised."),
    Setting("prefill_step_size", Int(1), None,
            doc="Tokens of a prompt read at a time."),
    Setting("prompt_cache_size", Int(0), None,
            doc="Prompts kept in the cache."),
    Setting("prompt_cache_bytes", Int(0, 2**53), None,
            doc="Bytes of the prompt cache."),
    Setting("decode_concurrency", Int(1, 4096), None,
            doc="Requests decoded at the same time."),
    Setting("prompt_concurrency", Int(1, 4096), None,
            doc="Prompts read at the same time."),
    Setting("chat_template", Text(empty=False), None,
            doc="Chat template in place of the model's own."),
    Setting("chat_template_args", Json('{"enable_thinking": false}'), None,
            doc="Values for the chat template, as a JSON object."),
    Setting("use_default_chat_template", Bool(), None,
            doc="Use the engine's default chat template."),
    Setting("trust_remote_code", Bool(), None,
            doc="Run program code that comes with a model."),
    Setting("adapter_path", File(), None,
            doc="Folder with adapter weights."),
)

MISTRALRS = (
    Setting("mistralrs_pa_memory_fraction", Float(0.05, 0.95), None,
            doc="Share of GPU memory for the paged KV cache."),
    Setting("mistralrs_paged_attn", Bool(), None,
            doc="Page the KV cache; false sizes it by the context."),
    Setting("pa_memory_mb", Int(1), None,
            doc="MiB of the paged KV cache; set, every share is left out."),
    Setting("chat_template", Text(empty=False), None,
            doc="Chat template in place of the model's own."),
    Setting("isq", OneOf(QuantBits(), Text(r"q\d(_\d|k)", like='a type such as "q4k" or "q8_0", or 2 to 8',
                                               empty=False), toml_type="str"), None,
            doc="Precision to which weights are quantised at load."),
    Setting("imatrix", File(), None,
            doc="Importance matrix that sharpens isq."),
    Setting("calibration_file", File(), None,
            doc="Text from which an importance matrix is computed."),
    Setting("isq_organization", Choice("default", "moqe"), None,
            doc="Quantise all weights, or the experts only."),
)
