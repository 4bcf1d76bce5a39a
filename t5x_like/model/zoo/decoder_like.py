"""Decoders: shared configuration, heads, class names and weight tables."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from t5x_like.config_class import config_class
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask, score_rows, scoring_heads
from t5x_like.model.zoo.weights import (
    TRANSPOSED,
    Weight,
    WeightTransform,
    module_rows,
    padded_rows,
    per_layer,
)


@config_class
class DecoderLikeConfig(CommonConfig):
    """Embeddings, blocks, a final norm and heads. Members give ``block`` and ``norm``.

    Attributes:
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Query heads of each layer.
      num_layers: Number of blocks.
      tie_word_embeddings: The output layer uses the word embeddings.
      keep_lm_head: Other heads than the output layer over the vocabulary come with that layer, for an auxiliary
        language-model loss (Radford et al. 2018, §3.2).
      classifier_dropout_rate: Dropout before the scores of other heads, 0.1 in Radford et al. 2018, §4.1; ``None`` for
        none, as in transformers.
    """

    mlp_dim: int
    num_heads: int
    num_layers: int
    tie_word_embeddings: bool
    task: ModelTask = "causal_lm"
    keep_lm_head: bool = False
    classifier_dropout_rate: float | None = None

    @property
    def parts(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return self.decoder

    @property
    def decoder(self) -> DecoderConfig:
        """Configuration of the family's model."""
        return DecoderConfig(
            embeddings=self.embeddings, stack=self.stack, heads=self.heads, compute_dtype=self.compute_dtype
        )

    @property
    def stack(self) -> StackConfig:
        """All layers."""
        return StackConfig(
            blocks=tuple(map(self.block, range(self.num_layers))),
            final_norm=self.final_norm,
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        return decoder_heads(
            self.task,
            self.num_labels,
            self.lm_head,
            keep_lm_head=self.keep_lm_head,
            dropout_rate=self.classifier_dropout_rate or 0.0,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone, for models whose positions act in attention."""
        return self.embeddings_of()

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer over the vocabulary."""
        return LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings)

    @property
    def norm(self) -> NormConfig:
        """Type of all norms."""
        raise NotImplementedError

    @property
    def final_norm(self) -> NormConfig | None:
        """Norm after the last block."""
        return self.norm

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``, counted from 0."""
        raise NotImplementedError


def as_encoder(config: DecoderLikeConfig) -> EncoderConfig:
    """Return the same embeddings, layers and heads, which read in both directions."""
    return EncoderConfig(
        embeddings=config.embeddings,
        stack=config.stack,
        heads=config.heads,
        compute_dtype=config.compute_dtype,
    )


def decoder_classes(name: str, *, question_answering: bool = True) -> dict[str, ModelTask]:
    """Return the classes of transformers that a decoder comes in.

    Args:
      name: First part of the classes' names, such as ``Llama``.
      question_answering: There is a class for question answering.
    """
    return {
        f"{name}ForCausalLM": "causal_lm",
        f"{name}ForSequenceClassification": "sequence_classification",
        f"{name}ForTokenClassification": "token_classification",
        **({f"{name}ForQuestionAnswering": "question_answering"} if question_answering else {}),
        f"{name}Model": "base",
    }


def decoder_heads(
    task: ModelTask,
    num_labels: int,
    lm_head: LMHeadConfig,
    *,
    keep_lm_head: bool = False,
    dropout_rate: float = 0.0,
) -> HeadsConfig:
    """Return the heads of a decoder. Sequence classification and multiple choice read the last real token.

    Args:
      task: Selects the heads.
      num_labels: Classes, for tasks that have classes.
      lm_head: Head over the vocabulary, for ``causal_lm``.
      keep_lm_head: Other tasks have the head over the vocabulary, too.
      dropout_rate: Dropout before the scores of other tasks.

    Raises:
      ValueError: The task is not one of a decoder's.
    """
    if task == "causal_lm":
        return HeadsConfig(lm_head=lm_head)
    if task == "base":
        return HeadsConfig()
    if task == "cloze":
        return HeadsConfig(lm_head=lm_head, cloze=True)
    pooler = PoolerConfig(pooling="last")
    # As in transformers: GPT's choices have a bias, which no softmax over choices depends on.
    pooled_bias = task == "multiple_choice"
    heads = scoring_heads(
        task, num_labels=num_labels, pooler=pooler, pooled_bias=pooled_bias, dropout_rate=dropout_rate
    )
    if heads is None:
        raise ValueError(f"this decoder has no head for the task {task!r}")
    return replace(heads, lm_head=lm_head) if keep_lm_head else heads


def decoder_weights(
    decoder: DecoderConfig | EncoderConfig,
    layer: Iterable[Weight] | Callable[[int], Iterable[Weight]],
    *,
    stack: Literal["encoder", "decoder"] = "decoder",
    tokens: str,
    lm_head: str = "lm_head",
    positions: str = "",
    final_norm: str = "",
    token_classifier: str = "classifier",
    choice: str = "choice",
    scores: Iterable[Weight] | None = None,
) -> tuple[Weight, ...]:
    """Return the weight table of a decoder, or of an encoder that has the same parts.

    Args:
      decoder: The model.
      layer: Rows of one layer, with ``{layer}`` in their names, or a function that returns them where layers differ.
      stack: Name of its stack.
      tokens: Name of the word embeddings.
      lm_head: Name of the output layer; a copy of the word embeddings where they are tied.
      positions: Name of learned position embeddings, where there are any.
      final_norm: Name of the norm after the last block, where there is one.
      token_classifier: Name of the head for token classification.
      choice: Name of the head for multiple choice.
      scores: Rows of other heads than the output layer; ``None`` for those of a decoder.
    """
    padded = padded_rows(decoder.embeddings.vocab_size, decoder.embeddings.padded_vocab_size)
    head, norm = decoder.heads.lm_head, decoder.stack.final_norm
    tied = head is not None and head.tie_word_embeddings
    copies = (f"{lm_head}.weight",) if tied else ()
    rows = [
        Weight("embedding/tokens/table", f"{tokens}.weight", padded, copies=copies),
        *([Weight("embedding/positions/table", f"{positions}.weight")] if positions else []),
        *stack_rows(stack, decoder.stack, layer),
    ]
    if norm is not None:
        rows += module_rows({f"{stack}/final_norm": final_norm}, bias=norm.bias)
    if head is not None and not tied:
        rows.append(Weight("heads/lm_head/projection/kernel", f"{lm_head}.weight", padded.then(TRANSPOSED)))
    if head is not None and head.bias:
        rows.append(Weight("heads/lm_head/bias", f"{lm_head}.bias", padded))
    of_decoder = decoder_score_rows(decoder.heads, token_classifier, choice)
    return (*rows, *(of_decoder if scores is None else scores))


def decoder_score_rows(
    heads: HeadsConfig, token_classifier: str = "score", choice: str = "choice"
) -> list[Weight]:
    """Return the rows of a decoder's score heads.

    Args:
      heads: Heads of the model.
      token_classifier: Published name of the projection for token classification.
      choice: Published name of the projection for multiple choice.
    """
    names = {
        "sequence_classification": "score",
        "multiple_choice": choice,
        "token_classification": token_classifier,
        "question_answering": "qa_outputs",
    }
    return score_rows(heads, names)


def stack_rows(
    name: Literal["encoder", "decoder"],
    stack: StackConfig,
    layer: Iterable[Weight] | Callable[[int], Iterable[Weight]],
) -> list[Weight]:
    """Return the rows of all layers of a stack from those of one, for every slot of its pattern.

    Args:
      name: Path of the stack.
      stack: The stack.
      layer: Rows of one layer, with ``{layer}`` in their names, or a function that returns them where layers differ.
    """
    same = [] if callable(layer) else list(layer)
    return [
        row
        for slot, layers in enumerate(stack.layer_pattern.slots)
        for row in per_layer(f"{name}/layers/{slot}", layers, layer(layers[0]) if callable(layer) else same)
    ]


def fused_qkv_row(hf_name: str, split: WeightTransform, part: Literal["kernel", "bias"] = "kernel") -> Weight:
    """Return the row of an array that fuses queries, keys and values.

    Args:
      hf_name: Published name.
      split: Separates the three.
      part: Kernel or bias.
    """
    paths = tuple(f"self_attention/{name}/{part}" for name in ("query", "key", "value"))
    return Weight(paths, hf_name, split)


def split_heads(num_heads: int) -> WeightTransform:
    """Split [heads * 3 * K, D], which has q, k and v of the first head, then of the second; biases without D."""

    def read(array: np.ndarray) -> tuple[np.ndarray, ...]:
        apart = array.reshape(num_heads, 3, -1, *array.shape[1:])
        return tuple(apart[:, part].reshape(-1, *array.shape[1:]).T for part in range(3))

    def write(*parts: np.ndarray) -> np.ndarray:
        apart = [part.T.reshape(num_heads, -1, *part.shape[:-1]) for part in parts]
        return np.stack(apart, axis=1).reshape(-1, *parts[0].shape[:-1])

    return WeightTransform(read, write)
