"""Properties of a model that decide which data it can learn from, and what a run of it begins with."""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from t5x_like.model.adapters import AdapterConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig

ModelTask: TypeAlias = Literal[
    "base",  # no head
    "encoding",  # no head and no pooler, and of an encoder-decoder the encoder alone
    "masked_lm",
    "pretraining",  # words, and next sentence or sentence order
    "next_sentence",
    "causal_lm",
    "bidirectional_lm",  # words from those before, and from those after
    "sequence_to_sequence_lm",
    "sequence_classification",  # regression with one label
    "multiple_choice",
    "token_classification",
    "question_answering",
    "replaced_tokens",  # ELECTRA's discriminator
    "cloze",  # candidates for a blank, scored by the output layer
    "speech_to_text",
    "text_to_speech",
    "speech_to_speech",
    "speech_pretraining",  # speech to speech and text to text, with clusters of frames
]

ProblemType: TypeAlias = Literal["single_label", "multi_label", "regression"]


class CarriedMemory(NamedTuple):
    """Memory of the batch before, which rows must continue.

    Attributes:
      setting: Beginning of a sentence that names it, such as ``"the model remembers 8 positions of …"``.
      without: Setting of a model without it.
      is_backward: Whether the model reads rows from their end.
      reuse_length: Tokens of a row that the next row continues; ``None`` for all.
    """

    setting: str
    without: str
    is_backward: bool = False
    reuse_length: int | None = None


class ModelTraits:
    """Base of model configurations; the values here are those of most models.

    Attributes:
      can_pack: Whether a row may have several examples.
      hides_targets: Whether the model predicts a token without reading it, so that inputs may show the targets.
      wraps_labels: Whether a decoder's first input is the last label of the row, where a call gives labels alone.
      rereads_all: Whether the decoder that reads the input again to classify it has read the last token, too.
      task: Selects the heads (see ``ModelTask``).
      num_labels: Classes of the head.
      problem_type: Type of labels of sequence classification.
      embeddings: Embeddings of the input.
      model_dim: Width of the residual stream.
      num_heads: Attention heads of a layer.
      num_token_types: Types of tokens.
      max_position_embeddings: Longest input in tokens that the model was made for.
      pad_token_id: Id of padding, where positions depend on it.
      decoder_start_token_id: First id that a decoder reads before labels, and before the input that it reads again;
        ``None`` for that of the vocabulary.
      num_experts: Experts of a layer.
      inner_group_num: Blocks that a layer consists of.
      share_stacks: Whether encoder and decoder share their layers.
      keep_lm_head: Whether a decoder has its output layer over the vocabulary next to another head.
      labels_are_next_tokens: Whether a label is that of its own position, and not that of the one before.
      has_ctc_head: Whether a model of speech to text scores the vocabulary for each frame, too.
      direction: Order in which rows are read, of models that have several.
      adapter: Few further weights that are trained in place of the others.
      compute_dtype: Type of activations.
      remat: Activations that the backward pass computes again.
      attention_implementation: Computation of attention.
    """

    can_pack: ClassVar[bool] = True
    wraps_labels: ClassVar[bool] = False
    rereads_all: ClassVar[bool] = False
    task: ModelTask | None = None
    num_labels: int | None = None
    problem_type: ProblemType | None = None
    embeddings: EmbeddingsConfig | None = None
    model_dim: int = 0
    num_heads: int | None = None
    num_token_types: int = 0
    max_position_embeddings: int | None = None
    pad_token_id: int | None = None
    decoder_start_token_id: int | None = None
    num_experts: int = 0
    inner_group_num: int = 1
    share_stacks: bool = False
    keep_lm_head: bool = False
    labels_are_next_tokens: bool = False
    has_ctc_head: bool = False
    direction: str | None = None
    adapter: AdapterConfig | None = None
    compute_dtype: str = "float32"
    remat: str = ""
    attention_implementation: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in vars(cls).get("__annotations__", {}):
            if name in _VALUES and name not in vars(cls) and not _is_dataclass_field(cls, name):
                setattr(cls, name, field())  # the value above is no default of a field that has none

    @property
    def hides_targets(self) -> bool:
        """Return whether inputs may show the targets."""
        return False

    @property
    def reads_masks(self) -> bool:
        """Return whether the model takes positions with targets for masked ones, as generators of ELECTRA do."""
        return False

    @property
    def reads_speech(self) -> bool:
        """Return whether inputs are waveforms."""
        return False

    @property
    def writes_speech(self) -> bool:
        """Return whether outputs are spectrograms."""
        return False

    @property
    def carried_memory(self) -> CarriedMemory | None:
        """Memory of the batch before; ``None`` for a model without one."""
        return None

    @property
    def unlabeled_loss(self) -> str | None:
        """Setting by which the model learns from rows without labels; ``None`` if it doesn't."""
        return None

    def check_vocabulary(self, vocabulary: Any) -> None:
        """Check that the model can read a vocabulary, apart from its size.

        Args:
          vocabulary: A tokenizer, or a vocabulary that has one.

        Raises:
          ValueError: Its pieces are of another kind than the model reads.
        """

    @property
    def vocabulary_weights(self) -> tuple[str, ...]:
        """Paths of constant weights that follow from the vocabulary."""
        return ()

    def weights_of_vocabulary(self, vocabulary: object) -> Mapping[str, np.ndarray]:
        """Return the weights at ``vocabulary_weights``.

        Args:
          vocabulary: A tokenizer, or a vocabulary that has one.

        Raises:
          ValueError: Its pieces are of another kind than the model reads.
        """
        return {}

    def taken_from(self, saved: object, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the weights of another model that this one starts from, by this one's paths.

        Args:
          saved: Configuration of that model, which may differ in its task.
          weights: Its weights, or their shapes, by its paths.
        """
        return weights if type(saved) is type(self) else traits_of(saved).remaining_weights(weights)

    def remaining_weights(self, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the weights of the model that remains after training, by its paths, of one that has others, too.

        Args:
          weights: All weights, or their shapes, by their paths.
        """
        return weights

    def trained_by_default(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return the patterns of weights that train where an experiment gives none.

        Args:
          paths: Paths of all weights.
        """
        return ("*",)


def traits_of(config: object) -> ModelTraits:
    """Return a configuration as ``ModelTraits``.

    One of another base class has the values of most models, but for fields of its own under these names.
    """
    if isinstance(config, ModelTraits):
        return config
    traits = ModelTraits()
    vars(traits).update({name: getattr(config, name) for name in _VALUES if hasattr(config, name)})
    return traits


def learned_positions(config: object) -> int | None:
    """Return the number of positions that a model has learned embeddings for; ``None`` if positions aren't learned."""
    embeddings = traits_of(config).embeddings
    learned = None if embeddings is None else embeddings.positions
    return None if learned is None else learned.max_position_embeddings


# Attributes of classes, and those that are fields of some configurations.
_OF_CLASSES = ("can_pack", "wraps_labels", "rereads_all")
_VALUES = tuple(name for name in ModelTraits.__annotations__ if name not in _OF_CLASSES)


def _is_dataclass_field(cls: type, name: str) -> bool:
    """Return whether a base of a class has a field of that name with a default, which the class inherits."""
    return any(
        name in vars(base).get("__dataclass_fields__", {}) and name in vars(base) for base in cls.__mro__
    )
