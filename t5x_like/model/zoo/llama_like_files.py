"""The records of Llama and its descendants: their form in Hugging Face's files."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from t5x_like.model.zoo.architecture import Architecture, FieldTable, published
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field
from t5x_like.model.zoo.decoder_like import decoder_weights
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.rope import rope_fields, take_rope
from t5x_like.model.zoo.weights import Weight, module_rows

# Fields whose defaults are those of the member's configuration.
_FIELDS = {
    "max_position_embeddings": "max_position_embeddings",
    "norm_epsilon": "rms_norm_eps",
    "tie_word_embeddings": "tie_word_embeddings",
}

# Llama's norms before attention and before the feed-forward layer.
PRE_NORMS = {
    "self_attention_residual/before": "input_layernorm",
    "feed_forward_residual/before": "post_attention_layernorm",
}


RopeReader: TypeAlias = Callable[[ConfigFields, Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
_ConfigT = TypeVar("_ConfigT", bound=LlamaLikeConfig)


def llama_like(
    name: str,
    config_class: type[_ConfigT],
    classes: Mapping[str, ModelTask],
    *,
    model_type: str = "",
    own_fields: tuple[str, ...] = (),
    read: Callable[[ConfigFields, Mapping[str, object]], Mapping[str, object]] = lambda _, __: {},
    write: Callable[[_ConfigT], Mapping[str, object]] = lambda _: {},
    num_kv_heads: int | None = None,
    activation: str = "hidden_act",
    ignored: tuple[str, ...] = (),
    norms: Mapping[str, str] = PRE_NORMS,
    attention: Callable[[_ConfigT], Iterable[Weight]] | None = None,
    feed_forward: Callable[[_ConfigT, int], Iterable[Weight]] | None = None,
    rope: RopeReader | None = None,
    scores: Callable[[_ConfigT], Iterable[Weight]] | None = None,
    qa_prefix: str = "model.",
    special_ids: Mapping[str, int | tuple[int, ...]],
    **others: Any,
) -> Architecture:
    """Return the record of a member of the family.

    Args:
      name: Name of the zoo file, and ``model_type`` in ``model.json``.
      config_class: The member's configuration.
      classes: Classes of transformers with their tasks; see ``Architecture``.
      model_type: That of a ``config.json``; ``name`` where empty.
      own_fields: The member's own fields that have the same name in a ``config.json``.
      read: Returns the member's other fields, given the common ones.
      write: The inverse of ``read``. Its fields replace others of the same name.
      num_kv_heads: Key and value heads where a ``config.json`` has none; ``None`` is the number of query heads.
      activation: Hugging Face's field for it.
      ignored: Hugging Face's fields that don't change the model.
      norms: Hugging Face's names of a layer's norms, by our paths.
      attention: Returns the rows of self-attention, where they are not Llama's.
      feed_forward: Returns the rows of the feed-forward layer of a layer, where they are not Llama's.
      rope: Returns the fields of rotary positions, given those of the file, those read, and the configuration's
        defaults; ``None`` where all layers have the same.
      scores: Returns the rows of other heads than the output layer, where they are not Llama's.
      qa_prefix: Begins weight names in the class for question answering.
      special_ids: Special ids where a ``config.json`` has none; see ``Architecture``.
      **others: Further attributes of ``Architecture``.
    """
    defaults: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(config_class)}
    plain = {**_FIELDS, **{name: name for name in own_fields}}
    activation_field = Field(activation, ACTIVATION_NAMES.hf_name(defaults["activation"]), ACTIVATION_NAMES)

    def read_all(fields: ConfigFields, values: dict[str, object]) -> dict[str, object]:
        positions = (rope or _read_rope)(fields, values, defaults)
        common = {**_read(fields, values, defaults, num_kv_heads), **positions}
        return {**common, **read(fields, values | common)}

    table = FieldTable(
        fields={
            "vocab_size": Field("vocab_size"),
            "model_dim": Field("hidden_size"),
            "mlp_dim": Field("intermediate_size"),
            "num_heads": Field("num_attention_heads"),
            "num_layers": Field("num_hidden_layers"),
            "activation": activation_field,
            **{path: Field(hf_name, defaults[path]) for path, hf_name in plain.items()},
        },
        ignored=("attention_dropout", *ignored),
        written={"attention_dropout": 0.0, "pad_token_id": 0},
        read=read_all,
        write=lambda config: {**_write(config), **write(config)},
    )

    def weights(config: _ConfigT) -> tuple[Weight, ...]:
        def layer_rows(layer: int) -> list[Weight]:
            attended = _attention_rows(config) if attention is None else attention(config)
            fed = feed_forward_rows(config) if feed_forward is None else feed_forward(config, layer)
            return [*module_rows(norms, "model.layers.{layer}.", bias=False), *attended, *fed]

        rows = decoder_weights(
            config.parts,
            layer_rows,
            stack=config.stack_name,
            tokens="model.embed_tokens",
            final_norm="model.norm",
            token_classifier="score",
            scores=None if scores is None else scores(config),
        )
        if config.task != "question_answering" or qa_prefix == "model.":
            return rows
        return tuple(row._replace(hf_name=_with_prefix(row.hf_name, qa_prefix)) for row in rows)

    return published(
        name,
        config_class,
        classes,
        table,
        weights=weights,
        model_types=(model_type or name,),
        prefix="model.",
        other_prefixes=() if qa_prefix == "model." else (qa_prefix,),
        special_ids=special_ids,
        **{"unused_weights": ("*.rotary_emb.inv_freq",), **others},
    )


def _read(
    fields: ConfigFields,
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    num_kv_heads: int | None,
) -> dict[str, Any]:
    """Return the fields that depend on others; arguments are those of ``llama_like`` and of the configuration."""
    absent = "num_key_value_heads" not in fields.config  # null always means as many as there are queries
    default = num_kv_heads if absent and num_kv_heads is not None else values["num_heads"]
    return {
        "head_dim": fields.take("head_dim", defaults["head_dim"]),
        "num_kv_heads": fields.take("num_key_value_heads", default),
    }


def _read_rope(
    fields: ConfigFields, values: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the rotary positions of all layers."""
    rotated = defaults.get("partial_rotary_factor")
    rope = take_rope(
        fields,
        rope_theta=defaults["rope_theta"],
        max_position_embeddings=values["max_position_embeddings"],
        rotated=rotated,
    )
    return {
        "rope_theta": rope.rope_theta,
        "rope_scaling": rope.rope_scaling,
        **({} if rotated is None else {"partial_rotary_factor": rope.rotated}),
    }


def _write(config: LlamaLikeConfig) -> dict[str, object]:
    return {
        # Versions of transformers before 4.45 don't know head_dim, so it is left out where it is the usual part.
        **({} if config.head_dim is None else {"head_dim": config.head_dim}),
        "num_key_value_heads": config.num_kv_heads or config.num_heads,
        **rope_fields(config.rope_theta, config.rope_scaling),
    }


def _attention_rows(config: LlamaLikeConfig) -> list[Weight]:
    attention, hf_name = config.attention(0), "model.layers.{layer}.self_attn."
    inputs = {f"self_attention/{name}": f"{name[0]}_proj" for name in ("query", "key", "value")}
    norms = {f"self_attention/{name}_norm": f"{name[0]}_norm" for name in ("query", "key")}
    return [
        *module_rows(inputs, hf_name, bias=attention.in_bias),
        *module_rows({"self_attention/out": "o_proj"}, hf_name, bias=attention.out_bias),
        *(module_rows(norms, hf_name, bias=False) if attention.qk_norm else []),
    ]


def feed_forward_rows(config: LlamaLikeConfig) -> list[Weight]:
    """Return the rows of Llama's feed-forward layer."""
    names = {f"feed_forward/{name}": f"{name}_proj" for name in ("gate", "up", "down")}
    return module_rows(names, "model.layers.{layer}.mlp.", bias=config.feed_forward.bias)


def _with_prefix(name: str, prefix: str) -> str:
    return prefix + name.removeprefix("model.") if name.startswith("model.") else name
