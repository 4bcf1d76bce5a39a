"""Fields of a Hugging Face ``config.json``, read so that none which changes the model is overlooked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t5x_like.value_types import fits

# Fields that any configuration may have and that don't change what the model computes.
_WITHOUT_EFFECT = frozenset(
    # where it comes from and how it is stored
    "_name_or_path architectures model_type transformers_version torch_dtype dtype _commit_hash tokenizer_class "  # noqa: SIM905 - quotes around sixty words would hide them
    "_attn_implementation _attn_implementation_autoset "
    # special ids, which decoding reads by itself, and what decoding would do unasked
    "pad_token_id eos_token_id bos_token_id decoder_start_token_id sep_token_id task_specific_params prefix "
    "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature "
    "top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences forced_bos_token_id forced_eos_token_id remove_invalid_values "
    "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens "
    # what is returned, and how fast
    "return_dict return_dict_in_generate output_scores output_hidden_states output_attentions use_cache "
    "initializer_range gradient_checkpointing chunk_size_feed_forward torchscript use_bfloat16 "
    # what heads of classes need, which is read elsewhere
    "id2label label2id num_labels problem_type finetuning_task regression_scale".split()
)

# Fields that any configuration may have and that would change the model, with the values that don't.
_DEFAULTS: dict[str, Any] = {
    "pruned_heads": {},
    "tie_encoder_decoder": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
}

_REQUIRED = object()

# Limits of sizes. Published models stay far below them; tables of weights are made for each layer and expert.
MAX_LAYERS = 10_000
MAX_SIZE = 2**24


def check_size(name: str, size: int) -> None:
    """Check a size before anything of it is made.

    Args:
      name: Name of the field.
      size: Its value.

    Raises:
      ValueError: It is beyond the limit of layers and experts, or of other sizes.
    """
    limit = MAX_LAYERS if name.endswith(("layers", "layer", "experts")) else MAX_SIZE
    if size > limit:
        raise ValueError(f"{name} is {size:,}; at most {limit:,} is possible")


class NameTable(dict[str, str]):
    """Our names by Hugging Face's. Where they have several names for one thing, the first is written."""

    def hf_name(self, own: str) -> str:
        """Return the name to write.

        Raises:
          ValueError: Hugging Face has none.
        """
        for hf_name, name in self.items():
            if name == own:
                return hf_name
        raise ValueError(f"{own!r} has no name in a config.json; {', '.join(self.values())} have")


ACTIVATION_NAMES = NameTable(
    {
        "relu": "relu",
        "gelu": "gelu",
        "gelu_python": "gelu",
        "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "gelu_fast": "gelu_tanh",
        "silu": "silu",
        "swish": "silu",
        "tanh": "tanh",
    }
)


class ConfigFields:
    """The fields of one ``config.json``; ``finish`` refuses those that were not read.

    Args:
      config: All fields of the file.
    """

    def __init__(self, config: Mapping[str, Any]):
        self.config = config
        self._left = set(config) - _WITHOUT_EFFECT
        for name, default in _DEFAULTS.items():
            self.must_be(name, default)

    def take(self, name: str, default: Any = _REQUIRED, *, kind: type | None = None) -> Any:
        """Return a field's value, or ``default`` where it is absent or null.

        Args:
          name: Hugging Face's name.
          default: A field without one is required.
          kind: Type of the value; by default that of ``default``, or int where that is ``None``.

        Raises:
          ValueError: The field is absent and has no default, or is of another type.
        """
        self._left.discard(name)
        value = self.config.get(name)
        if value is None:
            if default is _REQUIRED:
                raise ValueError(f"config.json lacks {name}")
            return default
        wanted = kind or (int if default is _REQUIRED or default is None else type(default))
        if not fits(value, wanted):
            raise ValueError(
                f"config.json: {name} is {value!r}, of type {type(value).__name__}, not {wanted.__name__}"
            )
        if wanted is int:
            check_size(f"config.json: {name}", value)
        return float(value) if wanted is float else value

    def take_name(self, name: str, names: Mapping[str, str], default: object = _REQUIRED) -> Any:
        """Return our name for a field's value.

        Args:
          name: Name of the field.
          names: Our names by the published ones.
          default: Published name for an absent field; without it the field is required.

        Raises:
          ValueError: The value is none of ``names``, or is absent without a default.
        """
        self._left.discard(name)
        value = default if self.config.get(name) is None else self.config[name]
        if value is _REQUIRED:
            raise ValueError(f"config.json lacks {name}")
        if not fits(value, str) or value not in names:
            raise ValueError(f"config.json: {name} is {value!r}; {', '.join(names)} are supported")
        return names[value]

    def ignore(self, *names: str) -> None:
        """Count fields as read that don't change what this ``model_type`` computes."""
        self._left -= set(names)

    def must_be(self, name: str, value: object) -> None:
        """Refuse any other value of a field that we can't vary.

        Args:
          name: Name of the field.
          value: Only value that we support.
        """
        self._left.discard(name)
        if self.config.get(name, value) != value:
            raise ValueError(f"config.json: {name} is {self.config[name]!r}; only {value!r} is supported")

    def finish(self) -> None:
        """Refuse fields that were not read, unless they are null."""
        for name in sorted(self._left):
            if self.config[name] is not None:
                raise ValueError(
                    f"config.json: {name} = {self.config[name]!r} is not known, and the model may depend on it; "
                    "if it does not, take the field out"
                )


@dataclass(frozen=True)
class Field:
    """One field of a ``config.json`` that holds one field of a configuration.

    Attributes:
      name: Hugging Face's name.
      default: Value where the file has none; a field without a default is required.
      names: Our names for values by the published ones, for fields that hold names.
      kind: Type of the value where ``default`` doesn't show it.
    """

    name: str
    default: Any = _REQUIRED
    names: NameTable | None = None
    kind: type | None = None

    def read(self, fields: ConfigFields) -> Any:
        """Return our value."""
        if self.names is not None:
            return fields.take_name(self.name, self.names, self.default)
        return fields.take(self.name, self.default, kind=self.kind)

    def write(self, value: Any) -> Any:
        """Return their value."""
        return value if self.names is None else self.names.hf_name(value)
