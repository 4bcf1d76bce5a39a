"""Reads a Hugging Face ``config.json`` so that no field which changes the model can be overlooked."""

from collections.abc import Mapping
from typing import Any

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
    "id2label label2id num_labels problem_type finetuning_task".split()
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


class NameTable(dict[str, str]):
    """Ours by their names; of several names of theirs for one thing the first is written."""

    def theirs(self, ours: str) -> str:
        """The name to write.

        Raises:
          ValueError: they have none.
        """
        for theirs, name in self.items():
            if name == ours:
                return theirs
        raise ValueError(f"{ours!r} has no name in a config.json; {', '.join(self.values())} have")


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
    """The fields of one ``config.json``; ``finish`` refuses those that nobody has taken."""

    def __init__(self, config: Mapping[str, Any]):
        self._config = config
        self._left = set(config) - _WITHOUT_EFFECT
        for name, default in _DEFAULTS.items():
            self.must_be(name, default)

    def take(self, name: str, default: Any = _REQUIRED) -> Any:
        """The field's value, or ``default`` where it is absent or null.

        Raises:
          ValueError: it is absent and has no default, or is of another type than its default.
        """
        self._left.discard(name)
        value = self._config.get(name)
        if value is None:
            if default is _REQUIRED:
                raise ValueError(f"config.json lacks {name}")
            return default
        wanted = int if default is _REQUIRED or default is None else type(default)
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise ValueError(
                f"config.json: {name} is {value!r}, of type {type(value).__name__}, not {wanted.__name__}"
            )
        return value

    def take_name(self, name: str, names: Mapping[str, str], default: Any = _REQUIRED) -> Any:
        """Our name for the field's value.

        Raises:
          ValueError: it is none of ``names``.
        """
        self._left.discard(name)
        value = default if self._config.get(name) is None else self._config[name]
        if value is _REQUIRED:
            raise ValueError(f"config.json lacks {name}")
        if value not in names:
            raise ValueError(f"config.json: {name} is {value!r}; {', '.join(names)} are supported")
        return names[value]

    def ignore(self, *names: str) -> None:
        """Fields of this ``model_type`` that don't change what it computes."""
        self._left -= set(names)

    def must_be(self, name: str, value: Any) -> None:
        """Refuses any other value of a field that we can't vary."""
        self._left.discard(name)
        if self._config.get(name, value) != value:
            raise ValueError(f"config.json: {name} is {self._config[name]!r}; only {value!r} is supported")

    def finish(self) -> None:
        """Refuses what is left over, unless it is null."""
        for name in sorted(self._left):
            if self._config[name] is not None:
                raise ValueError(
                    f"config.json: {name} = {self._config[name]!r} is not known, and the model may depend on it; "
                    "if it does not, take the field out"
                )
