"""The records of Llama and its descendants: their form in Hugging Face's files."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.decoder_parts import (
    attention_rows,
    decoder_rows,
    feed_forward_rows,
    norm_rows,
)
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.model_tasks import ModelTask, class_of, num_labels_of, problem_type_of, task_of
from t5x_like.model.zoo.rope import rope_fields, take_rope
from t5x_like.model.zoo.weights import Weight

# Llama's norms before attention and before the feed-forward layer, by the names that its code gave them.
PRE_NORMS = {
    "around_self_attention/before": "input_layernorm",
    "around_feed_forward/before": "post_attention_layernorm",
}


class LlamaLikeFields(ConfigFields):
    """The fields of a member's ``config.json``, where the configuration's own defaults fill gaps.

    Args:
      config: the file's fields.
      config_class: the member's configuration.
    """

    def __init__(self, config: Mapping[str, Any], config_class: type[LlamaLikeConfig]):
        super().__init__(config)
        self.given = config
        self.defaults: dict[str, Any] = {field.name: field.default for field in fields(config_class)}

    def take_ours(self, theirs: str, ours: str) -> Any:
        """The value of the field that they call ``theirs``, or the default of ours where it is absent or null."""
        return self.take(theirs, self.defaults[ours])

    def take_or_null(self, theirs: str, ours: str) -> Any:
        """The same, where null has a meaning of its own: ``None``."""
        value = self.take_ours(theirs, ours)
        return None if theirs in self.given and self.given[theirs] is None else value

    def take_common(
        self,
        classes: Mapping[str, ModelTask],
        *,
        num_kv_heads: int | None,
        activation: str,
    ) -> dict[str, Any]:
        """The fields of ``LlamaLikeConfig``. Arguments are those of ``llama_like``."""
        max_position_embeddings = self.take_ours("max_position_embeddings", "max_position_embeddings")
        rope = take_rope(
            self,
            max_position_embeddings=max_position_embeddings,
            rotated=self.defaults.get("partial_rotary_factor"),
        )
        num_heads = self.take("num_attention_heads")
        absent = "num_key_value_heads" not in self.given  # null always means as many as there are queries
        default = num_kv_heads if absent and num_kv_heads is not None else num_heads
        self.ignore("attention_dropout")
        partial = {"partial_rotary_factor": rope.rotated} if "partial_rotary_factor" in self.defaults else {}
        return {
            **partial,
            "vocab_size": self.take("vocab_size"),
            "model_dim": self.take("hidden_size"),
            "mlp_dim": self.take("intermediate_size"),
            "num_heads": num_heads,
            "num_layers": self.take("num_hidden_layers"),
            "num_kv_heads": self.take("num_key_value_heads", default),
            "head_dim": self.take_ours("head_dim", "head_dim"),
            "activation": self.take_name(
                activation, ACTIVATION_NAMES, ACTIVATION_NAMES.theirs(self.defaults["activation"])
            ),
            "rope_theta": rope.rope_theta,
            "rope_scaling": rope.rope_scaling,
            "max_position_embeddings": max_position_embeddings,
            "norm_epsilon": self.take_ours("rms_norm_eps", "norm_epsilon"),
            "tie_word_embeddings": self.take_ours("tie_word_embeddings", "tie_word_embeddings"),
            "task": task_of(self.given, classes, "base"),
            "num_labels": num_labels_of(self.given),
            "problem_type": problem_type_of(self.given),
        }


def llama_like(
    name: str,
    config_class: type[LlamaLikeConfig],
    classes: Mapping[str, ModelTask],
    *,
    model_type: str = "",
    own_fields: Mapping[str, str] | None = None,
    take: Callable[[LlamaLikeFields, Mapping[str, Any]], dict[str, Any]] | None = None,
    put: Callable[[Any], dict[str, Any]] | None = None,
    num_kv_heads: int | None = None,
    activation: str = "hidden_act",
    norms: Mapping[str, str] = PRE_NORMS,
    feed_forward: Callable[[Any], Iterable[Weight]] | None = None,
    answering: str = "model.",
    special_ids: Mapping[str, int | tuple[int, ...]],
) -> Architecture:
    """The record of a member of the family.

    Args:
      name: the zoo file's, and the ``model_type`` in ``model.json``.
      config_class: the member's configuration.
      classes: as in ``Architecture``.
      model_type: that of a ``config.json``; ``name`` where empty.
      own_fields: the member's plain fields by Hugging Face's names for them.
      take: reads the member's other fields, given the common ones.
      put: the inverse of ``take``. What it gives replaces other fields of the same name.
      num_kv_heads: those where a ``config.json`` has none; as many as queries where ``None``.
      activation: Hugging Face's field for it.
      norms: the norms of a layer by our paths, with Hugging Face's names.
      feed_forward: the weights of a feed-forward layer, where they are not Llama's.
      answering: what weight names begin with in the class that answers questions.
      special_ids: as in ``Architecture``.
    """
    model_type = model_type or name
    plain = own_fields or {}

    def from_hugging_face(config: Mapping[str, Any]) -> LlamaLikeConfig:
        fields = LlamaLikeFields(config, config_class)
        common = fields.take_common(classes, num_kv_heads=num_kv_heads, activation=activation)
        own = {ours: fields.take_ours(theirs, ours) for theirs, ours in plain.items()}
        own |= {} if take is None else take(fields, common)
        fields.finish()
        return config_class(**(common | own))

    def to_hugging_face(config: LlamaLikeConfig) -> dict[str, Any]:
        # Versions of transformers before 4.45 don't know head_dim, so it is left out where it is the usual part.
        head_dim = {} if config.head_dim is None else {"head_dim": config.head_dim}
        own = {theirs: getattr(config, ours) for theirs, ours in plain.items()}
        return {
            "architectures": [class_of(config.task, classes)],
            "attention_dropout": 0.0,
            activation: ACTIVATION_NAMES.theirs(config.activation),
            **head_dim,
            "hidden_size": config.model_dim,
            "intermediate_size": config.mlp_dim,
            "max_position_embeddings": config.max_position_embeddings,
            "model_type": model_type,
            "num_attention_heads": config.num_heads,
            "num_hidden_layers": config.num_layers,
            "num_key_value_heads": config.num_kv_heads or config.num_heads,
            "num_labels": config.num_labels,
            "pad_token_id": 0,
            "rms_norm_eps": config.norm_epsilon,
            **rope_fields(config.rope_theta, config.rope_scaling),
            "tie_word_embeddings": config.tie_word_embeddings,
            "torch_dtype": "float32",
            "vocab_size": config.vocab_size,
            **own,
            **({} if put is None else put(config)),
        }

    def hugging_face_weights(config: LlamaLikeConfig) -> tuple[Weight, ...]:
        gated = (
            feed_forward_rows(bias=config.feed_forward.bias) if feed_forward is None else feed_forward(config)
        )
        layer = [*norm_rows(norms), *attention_rows(config.attention(0)), *gated]
        return decoder_rows(config.decoder, layer, answering=answering)

    return Architecture(
        name=name,
        config_class=config_class,
        model_types=(model_type,),
        classes=classes,
        from_hugging_face=from_hugging_face,
        to_hugging_face=to_hugging_face,
        hugging_face_weights=hugging_face_weights,
        prefix="model.",
        other_prefixes=() if answering == "model." else (answering,),
        unused_weights=("*.rotary_emb.inv_freq",),
        special_ids=special_ids,
    )
