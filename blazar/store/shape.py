"""`Shape`: the sizes in a GGUF model from which its need of memory follows. Unknown counts as 0."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from blazar.store import attention
from blazar.store.gguf import Header
from blazar.store.splits import read_parts

_LAYER = re.compile(r"blk\.(\d{1,4})\.(.+)")
_EXPERTS = re.compile(r"ffn_(up|down|gate|gate_up)_(ch|)exps")
_DENSE = re.compile(r"ffn_(up|down|gate)\.")
INPUT = ("token_embd.", "per_layer_token_embd.", "position_embd.", "token_types.", "token_embd_norm.")
"""How the names of tensors begin that are read by rows, and so stay in main memory."""
REARRANGED = frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"})
"""Types of which llama.cpp makes another copy, in an order that a processor multiplies faster."""
MAX_LAYERS = 1024


@dataclass(frozen=True)
class Layer:
    """One layer. `weights`, `experts` and `dense` are bytes, the last two parts of the first."""

    weights: int = 0
    experts: int = 0
    dense: int = 0
    """What of a feed-forward part without experts can be kept apart."""
    keys: int = 0
    """Numbers kept as key of each token; 0 = nothing is kept."""
    values: int = 0
    window: int = 0
    """Tokens that are kept at most; 0 = the whole context."""
    state: int = 0
    """Bytes kept for each slot, however long its text."""


@dataclass(frozen=True)
class Shape:
    """A whole model."""

    architecture: str
    context: int
    """Tokens of the context it was trained with."""
    layers: tuple[Layer, ...]
    entry: int
    """Bytes of what stands before the layers: it stays in main memory."""
    head: int
    """Bytes of what stands behind the layers; it goes where the last layer goes."""
    tied: int = 0
    """Bytes of the entry that serve as head too, and are copied to a GPU for that."""
    width: int = 0
    """Numbers of one token between two layers."""
    feed_forward: int = 0
    """Numbers in the widest feed-forward part; with experts, in all that one token uses."""
    heads: int = 0
    key_width: int = 0
    """Numbers of one key."""
    value_width: int = 0
    inner: int = 0
    """Numbers inside a layer that keeps a state."""
    vocabulary: int = 0
    ahead: int = 0
    """Layers at the end that draft the tokens after the next, and keep nothing otherwise."""
    merges: int = 0
    """Rules by which a vocabulary of pairs is built."""
    rearranged: int = 0
    """Bytes in types that a processor wants rearranged, and that stay mapped since they lie between others."""
    embedding: bool = False

    @property
    def weights(self) -> int:
        return self.entry + self.head + sum(layer.weights for layer in self.layers)

    @property
    def is_latent(self) -> bool:
        """Whether keys and values lie in one compressed row."""
        return any(layer.keys and not layer.values for layer in self.layers)

    @property
    def experts(self) -> int:
        return sum(layer.experts for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` is the way back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Shape":
        return cls(**{**plain, "layers": tuple(Layer(**layer) for layer in plain["layers"])})


def read_shape(parts: Sequence[Path]) -> Shape:
    """The shape of a model in one GGUF file or several. Raises ModelFileRefused."""
    return shape_of(read_parts(parts))


def shape_of(header: Header) -> Shape:
    """Pure: from a header that holds an architecture."""
    keys = Keys(header)
    count = min(keys.number("block_count"), MAX_LAYERS)
    weights, experts, dense = [0] * count, [0] * count, [0] * count
    entry = head = embedding = 0
    for name, size in header.tensor_bytes.items():
        found = _LAYER.fullmatch(name)
        if found and int(found[1]) < count:
            number, rest = int(found[1]), found[2]
            weights[number] += size
            experts[number] += size if _EXPERTS.match(rest) else 0
            dense[number] += size if _DENSE.match(rest) else 0
        elif name.startswith(INPUT):
            entry += size
            embedding += size if name == "token_embd.weight" else 0
        else:
            head += size
    kept = [_kept(keys, number, count) for number in range(count)]
    experts_used = keys.number("expert_used_count") * keys.number("expert_feed_forward_length", "feed_forward_length")
    return Shape(
        architecture=keys.architecture, context=keys.number("context_length"),
        layers=tuple(Layer(all_, experts_, dense_, *what) for all_, experts_, dense_, what
                     in zip(weights, experts, dense, kept, strict=True)),
        entry=entry, head=head, tied=0 if "output.weight" in header.tensor_bytes else embedding,
        width=keys.number("embedding_length"), feed_forward=max(experts_used, keys.largest("feed_forward_length")),
        heads=keys.largest("attention.head_count"), key_width=keys.key_width(), value_width=keys.value_width(),
        inner=keys.number("ssm.inner_size"),
        vocabulary=keys.number("vocab_size") or header.lengths.get("tokenizer.ggml.tokens", 0),
        ahead=keys.number("nextn_predict_layers"),
        merges=header.lengths.get("tokenizer.ggml.merges", 0),
        rearranged=_rearranged(header),
        embedding=keys.architecture in attention.WITHOUT_CACHE or keys.number("pooling_type") > 0)


def _rearranged(header: Header) -> int:
    """What lies before the first and behind the last tensor that is used as it is, an engine gives back."""
    sizes = [(size, header.tensor_types.get(name) in REARRANGED and not name.startswith(INPUT))
             for name, size in header.tensor_bytes.items()]
    used = [place for place, (_, is_copied) in enumerate(sizes) if not is_copied]
    return sum(size for size, is_copied in sizes[used[0]:used[-1]] if is_copied) if used else 0


class Keys:
    """The metadata of a header, by the part of a key after the architecture's name."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self.architecture = str(header.metadata.get("general.architecture", ""))

    def number(self, *names: str) -> int:
        """The first that is there as a whole number; 0 when none is."""
        for name in names:
            value = self._header.metadata.get(f"{self.architecture}.{name}")
            if isinstance(value, int) and value > 0:
                return int(value)
        return 0

    def has(self, name: str) -> bool:
        full = f"{self.architecture}.{name}"
        return full in self._header.metadata or full in self._header.arrays

    def each(self, name: str, layer: int, default: int = 0) -> int:
        """The number of one layer, where a key may hold one for each."""
        values = self._header.arrays.get(f"{self.architecture}.{name}")
        if values is not None:
            return _whole(values[layer]) if layer < len(values) else 0
        return self.number(name) if self.has(name) else default

    def largest(self, name: str) -> int:
        values = self._header.arrays.get(f"{self.architecture}.{name}") or (self.number(name),)
        return max(map(_whole, values), default=0)

    def key_width(self, window: bool = False) -> int:
        return self._width("key_length", window)

    def value_width(self, window: bool = False) -> int:
        return self._width("value_length", window)

    def _width(self, name: str, window: bool) -> int:
        heads = self.largest("attention.head_count")
        usual = self.number("embedding_length") // heads if heads else 0
        return (window and self.number(f"attention.{name}_swa")) or self.number(f"attention.{name}") or usual


def _whole(value: Any) -> int:
    """A number of an array; 0 for what cannot be a size."""
    return int(value) if isinstance(value, int | float) and 0 <= value < math.inf else 0


def _kept(keys: Keys, layer: int, count: int) -> tuple[int, int, int, int]:
    """What one layer keeps: keys, values, window, state."""
    architecture = keys.architecture
    if architecture in attention.WITHOUT_CACHE or layer >= count - keys.number("nextn_predict_layers"):
        return 0, 0, 0, 0
    shared = keys.number("attention.shared_kv_layers") or attention.SHARED_LAYERS.get(architecture, 0)
    if layer >= count - shared:
        return 0, 0, 0, 0
    recurrent = _is_recurrent(keys, layer)
    state = 4 * _state(keys) if recurrent or architecture in attention.BOTH else 0
    if recurrent:
        return 0, 0, 0, state
    heads = keys.each("attention.head_count_kv", layer, keys.each("attention.head_count", layer))
    window = _window(keys, layer, count)
    if keys.number("attention.key_length_mla") and keys.number("attention.value_length_mla"):
        return heads * keys.key_width(window > 0), 0, window, state  # values are a part of the keys
    return heads * keys.key_width(window > 0), heads * keys.value_width(window > 0), window, state


def _is_recurrent(keys: Keys, layer: int) -> bool:
    architecture = keys.architecture
    if architecture in attention.RECURRENT:
        return True
    if keys.has("attention.recurrent_layers"):
        return bool(keys.each("attention.recurrent_layers", layer))
    if architecture in attention.INTERVALS:
        interval = keys.number("full_attention_interval") or attention.INTERVALS[architecture]
        return (layer + 1) % interval != 0
    if architecture in attention.BY_HEADS:
        is_dense = architecture.startswith("nemotron_h") and keys.each("feed_forward_length", layer) > 0
        return keys.each("attention.head_count_kv", layer) == 0 and not is_dense
    return False


def _window(keys: Keys, layer: int, count: int) -> int:
    """Tokens that a layer looks back; 0 = all."""
    known = attention.WINDOWED.get(keys.architecture)
    size = keys.number("attention.sliding_window")
    if not size and known and not keys.has("attention.sliding_window"):
        size = known.default
    pattern = "attention.sliding_window_pattern"
    if keys.largest(pattern) == 1 and not keys.number(pattern):  # one yes or no for each layer
        return size if keys.each(pattern, layer) else 0
    if known is None or not size or (keys.architecture == "exaone4" and count != 64):
        return 0
    period = keys.number(pattern) or known.period
    place = layer % period
    return 0 if place == (0 if known.whole_first else period - 1) else size


def _state(keys: Keys) -> int:
    """Numbers that a recurrent layer keeps for each slot."""
    width, heads = keys.number("embedding_length"), keys.largest("attention.head_count")
    if head := keys.number("wkv.head_size"):
        return (keys.number("token_shift_count") or 2) * width + width * head
    if cache := keys.number("shortconv.l_cache"):
        return width * (cache - 1)
    kernel, inner, state = (keys.number(f"ssm.{name}") for name in ("conv_kernel", "inner_size", "state_size"))
    if head := keys.number("kda.head_dim"):
        return 3 * (kernel - 1 if kernel else 3) * heads * head + head * head * heads
    groups = keys.number("ssm.group_count")
    return max(kernel - 1, 0) * (inner + 2 * groups * state) + state * inner
