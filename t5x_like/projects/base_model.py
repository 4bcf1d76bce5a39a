"""The model that a project begins with: a checkpoint's, or a small one with fresh weights."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import as_path
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.encoder_decoder import EncoderDecoderConfig
from t5x_like.model.model_traits import learned_positions, traits_of
from t5x_like.model.zoo.model_tasks import GENERATIVE_TASKS
from t5x_like.model.zoo.t5_like import T5LikeConfig
from t5x_like.pretrained.hub import local_directory
from t5x_like.pretrained.run_weights import trained_with_vocabulary
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.text.vocabularies.compare import Measures, measure_texts
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer

SHIPPED_VOCABULARY = "data/vocabulary/spiece.model"
NUM_SENTINELS = 100  # T5's, and the default of tasks
_MAX_UNKNOWN = 0.01  # share of unknown tokens
_LEAST_BYTES_PER_TOKEN = 2.0
_MEASURED_TEXTS = 1000


@dataclass(frozen=True, kw_only=True)
class BaseModel:
    """Model, its vocabulary, and what limits its rows.

    Attributes:
      checkpoint: Absolute path of its weights; None for fresh weights.
      vocabulary: Path or name of its vocabulary.
      num_sentinels: Sentinels to add to the vocabulary; 0 where the model has no embeddings for them.
      layout: Streams that it reads.
      can_generate: Whether it generates text.
      is_t5: Whether it is a T5, mT5 or LongT5.
      width: Size of its hidden states; 0 for fresh weights.
      max_length: Learned positions; None without a limit.
      vocabulary_line: Line of a report: the vocabulary, and how well it reads the texts.
    """

    checkpoint: str | None
    vocabulary: str
    num_sentinels: int = NUM_SENTINELS
    layout: Literal["encoder", "decoder", "encoder_decoder"] = "encoder"
    can_generate: bool = False
    is_t5: bool = False
    width: int = 0
    max_length: int | None = None
    vocabulary_line: str = ""

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the vocabulary."""
        return open_tokenizer(self.vocabulary, self.num_sentinels)


def base_model(checkpoint: str | None, texts: Sequence[str]) -> BaseModel:
    """Return the model of a checkpoint, or a fresh one with a vocabulary that suits the texts.

    Args:
      checkpoint: A Hugging Face directory, a name on the Hub, or a run; None for fresh weights.
      texts: Texts of the training rows that the model reads or writes.

    Raises:
      UserError: The checkpoint can't be opened, or has no vocabulary.
    """
    sample = texts[:: -(-len(texts) // _MEASURED_TEXTS)]
    if checkpoint is None:
        vocabulary, line = _fitting_vocabulary(sample)
        return BaseModel(checkpoint=None, vocabulary=vocabulary, max_length=512, vocabulary_line=line)
    try:
        directory = os.fspath(local_directory(checkpoint))
        config = read_config(directory)
    except (ValueError, OSError) as error:
        raise UserError(f"checkpoint={checkpoint}: {error}") from error
    directory = directory if "://" in directory else os.path.abspath(directory)
    parts = config.parts
    vocabulary = _vocabulary_of(directory)
    (fit,) = measure_texts([open_tokenizer(vocabulary, 0)], sample)
    advice = "; a checkpoint for this language would lose less" if fit.unknown_rate > _MAX_UNKNOWN else ""
    has_room = open_tokenizer(vocabulary, NUM_SENTINELS).vocab_size <= config.vocab_size
    return BaseModel(
        checkpoint=directory,
        vocabulary=vocabulary,
        num_sentinels=NUM_SENTINELS if has_room else 0,
        layout="encoder_decoder"
        if isinstance(parts, EncoderDecoderConfig)
        else "decoder"
        if isinstance(parts, DecoderConfig)
        else "encoder",
        can_generate=traits_of(config).task in GENERATIVE_TASKS,
        is_t5=isinstance(config, T5LikeConfig),
        width=traits_of(config).model_dim,
        max_length=learned_positions(config),
        vocabulary_line=f"vocabulary: of the checkpoint, {_described(fit)}{advice}",
    )


def _fitting_vocabulary(texts: Sequence[str]) -> tuple[str, str]:
    """Return the shipped vocabulary of English, or bytes for texts that it can't read well; and a report's line."""
    (shipped,) = measure_texts([open_tokenizer(SHIPPED_VOCABULARY, 0)], texts)
    if shipped.unknown_rate <= _MAX_UNKNOWN and shipped.bytes_per_token >= _LEAST_BYTES_PER_TOKEN:
        return SHIPPED_VOCABULARY, f"vocabulary: {SHIPPED_VOCABULARY}, {_described(shipped)}"
    return "bytes", f"vocabulary: bytes, as ByT5; {SHIPPED_VOCABULARY} has {_described(shipped)}"


def _described(fit: Measures) -> str:
    return f"{fit.unknown_rate:.1%} unknown tokens, {fit.bytes_per_token:.1f} bytes a token"


def _vocabulary_of(directory: str) -> str:
    try:
        open_tokenizer(directory)
        return directory
    except (ValueError, OSError) as error:
        recorded = trained_with_vocabulary(directory) if as_path(directory).is_dir() else ""
        if recorded:
            return recorded
        raise UserError(
            f"checkpoint={directory} has no vocabulary: {error}",
            hint="put the tokenizer's files next to the weights",
        ) from error
