"""The metadata of a ``.gguf`` file as fields of a Hugging Face ``config.json``."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from t5x_like.value_types import fits

_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

# Names under the architecture's own prefix.
_SIZES = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
}
_SPECIAL_IDS = {
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "padding_token_id": "pad_token_id",
}

# Llama 3.1 to 3.3 scale rotary frequencies by these (and a factor of their own); llama.cpp stores the result only.
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


class GgufFields:
    """Metadata that is taken piece by piece; what is left over might change the model and is refused."""

    def __init__(self, metadata: Mapping[str, Any], where: str):
        self._where = where
        self._architecture = str(metadata.get("general.architecture"))
        if self._architecture not in _CLASSES:
            raise ValueError(
                f"{where} holds a model of architecture {self._architecture!r}; {', '.join(_CLASSES)} can be read"
            )
        if metadata.get("split.count", 0) > 1:
            raise ValueError(
                f"{where} is one of {metadata['split.count']} pieces; join them with llama-gguf-split --merge"
            )
        self._metadata = metadata
        prefix = f"{self._architecture}."
        self._left = {name.removeprefix(prefix) for name in metadata if name.startswith(prefix)}

    def read(
        self, *, vocab_size: int, tie_word_embeddings: bool, biases: set[str], frequencies: np.ndarray | None
    ) -> dict[str, Any]:
        """Return all fields.

        Args:
          vocab_size: Rows of the table of embeddings.
          tie_word_embeddings: The head is the table of embeddings.
          biases: Parts of layers that have biases.
          frequencies: Divisors of the rotary frequencies, [head_dim / 2]; None for none.
        """
        fields: dict[str, Any] = {
            "model_type": self._architecture,
            "architectures": [_CLASSES[self._architecture]],
            "hidden_act": "silu",
            "vocab_size": vocab_size,
            "tie_word_embeddings": tie_word_embeddings,
        }
        fields |= {hf_name: self._size(key) for key, hf_name in _SIZES.items()}
        num_heads = fields["num_attention_heads"]
        fields["num_key_value_heads"] = self._size("attention.head_count_kv", num_heads)
        fields["max_position_embeddings"] = self._size("context_length")
        fields["rms_norm_eps"] = self._number("attention.layer_norm_rms_epsilon")
        fields["rope_theta"] = self._number("rope.freq_base", 10000.0)
        head_dim = self._head_dim(fields["hidden_size"] // num_heads)
        if self._architecture == "qwen3" or head_dim != fields["hidden_size"] // num_heads:
            fields["head_dim"] = head_dim
        if self._architecture == "llama":
            fields["attention_bias"] = "attn_q" in biases
            fields["mlp_bias"] = "ffn_gate" in biases
        scaling = self._scaling(fields["rope_theta"], frequencies)
        if scaling:
            fields["rope_scaling"] = scaling
        for key, hf_name in _SPECIAL_IDS.items():
            token_id = self._metadata.get(f"tokenizer.ggml.{key}")
            if token_id is not None and token_id < vocab_size:  # files have -1, unsigned, for a missing one
                fields[hf_name] = token_id
        self._finish()
        return fields

    def _take(self, name: str, default: Any = None) -> Any:
        self._left.discard(name)
        value = self._metadata.get(f"{self._architecture}.{name}", default)
        if value is None:
            raise ValueError(f"{self._where} lacks {self._architecture}.{name}")
        return value

    def _size(self, name: str, default: int | None = None) -> int:
        value = self._take(name, default)
        if not fits(value, int) or value < 1:
            raise ValueError(
                f"{self._where}: {self._architecture}.{name} is {value!r}; one positive number is needed"
            )
        return value

    def _number(self, name: str, default: float | None = None) -> float:
        """In the fewest digits that mean the same float32, so that 1e-5 reads as it was written."""
        return float(str(np.float32(self._take(name, default))))

    def _head_dim(self, default: int) -> int:
        head_dim = self._size("attention.key_length", default)
        for name in ("attention.value_length", "rope.dimension_count"):
            if self._size(name, head_dim) != head_dim:
                raise ValueError(
                    f"{self._where}: {self._architecture}.{name} is {self._take(name)}, the keys have {head_dim} "
                    "dimensions; models where the two differ can't be read"
                )
        return head_dim

    def _scaling(self, theta: float, frequencies: np.ndarray | None) -> dict[str, object] | None:
        kind = self._take("rope.scaling.type", "none")
        if kind not in ("none", "linear"):
            raise ValueError(f"{self._where}: rope.scaling.type is {kind!r}; none and linear can be read")
        factor = float(self._take("rope.scaling.factor", 1.0))
        if frequencies is not None and not np.all(frequencies == 1):
            return {"rope_type": "llama3", **self._llama3(theta, frequencies)}
        return {"type": "linear", "factor": factor} if kind == "linear" and factor != 1 else None

    def _llama3(self, theta: float, frequencies: np.ndarray) -> dict[str, object]:
        scaling = {"factor": float(frequencies.max()), **_LLAMA3}
        expected = llama3_divisors(theta, 2 * len(frequencies), **scaling)
        if np.allclose(frequencies, expected, rtol=1e-4):
            return scaling
        raise ValueError(f"{self._where}: rope_freqs.weight scales frequencies otherwise than Llama 3.1 does")

    def _finish(self) -> None:
        self._left.discard("vocab_size")  # the table itself has the last word
        for name in sorted(self._left):
            if self._take(name):  # zero experts, say, are none
                raise ValueError(
                    f"{self._where}: {self._architecture}.{name} = {self._take(name)!r} is not known, and the model "
                    "may depend on it"
                )


def llama3_divisors(
    theta: float,
    head_dim: int,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> np.ndarray:
    """By what Llama 3.1 divides each rotary frequency, [head_dim / 2]: ``apply_scaling`` in Meta's llama-models.

    Waves that turn often within the original context stay as they are, those that turn seldom are ``factor`` times as
    long, and between the two limits the frequencies are mixed.

    Args:
      theta: Base of the frequencies.
      head_dim: Width of a head.
      factor: Divisor of low frequencies.
      low_freq_factor: Waves longer than the original length divided by it are stretched.
      high_freq_factor: Waves shorter than the original length divided by it stay.
      original_max_position_embeddings: Length of the model's pretraining.
    """
    frequencies = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    turns = original_max_position_embeddings * frequencies / (2 * np.pi)
    kept = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return (1 / ((1 - kept) / factor + kept)).astype(np.float32)
