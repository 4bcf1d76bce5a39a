"""A rule for corpora that asks a fine-tuned encoder: it keeps the pages that the model rates highly."""

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.evaluation.checkpoint_predictor import checkpoint_predictor
from t5x_like.evaluation.row_predictors import TEXT, RowPredictor
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.run_weights import steps_of
from t5x_like.pretrained.weight_sources import identity_of, is_run

# Characters read for each token of the input: the model sees a page's beginning only, and cutting all of it takes time.
_CHARS_A_TOKEN = 20


@dataclass(frozen=True, kw_only=True)
class EncoderQuality:
    """Keeps pages that a model with a head rates at least ``threshold``, by their first ``inputs_length`` tokens.

    The head predicts a number, as FineWeb-Edu's from 0 to 5 (Penedo et al. 2024, §4, https://arxiv.org/abs/2406.17557),
    or classes, of which ``label`` names the one whose probability counts. Pages are scored in batches, those of similar
    length together. Scores are rounded to four digits. On other hardware a score at the threshold may still differ.

    Attributes:
      checkpoint: A run, or a Hugging Face directory with its tokenizer.
      threshold: Lowest score of a page that is kept.
      label: Class whose probability is the score; None for a head that predicts a number.
      batch_size: Pages in a batch of the model.
      inputs_length: Tokens of a page that the model reads.

    Raises:
      ValueError: A field isn't positive; on first use, there are no weights, or their head doesn't fit ``label``.
    """

    NAME: ClassVar[str] = "encoder-quality"
    VERSION: ClassVar[int] = 1

    checkpoint: str
    threshold: float
    label: str | None = None
    batch_size: int = 64
    inputs_length: int = 512

    def __post_init__(self) -> None:
        for name in ("batch_size", "inputs_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"EncoderQuality.{name} is {getattr(self, name)}; give 1 or more")
        if self.label is not None and not 0 < self.threshold <= 1:
            raise ValueError(
                f"EncoderQuality.threshold is {self.threshold}; the score is the probability of {self.label!r}: give "
                "more than 0, up to 1"
            )

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, or ``filtered:low_quality``."""
        return self.apply_batch([page], [counts])[0]

    def apply_batch(self, pages: Sequence[Page], counts: Sequence[Counter[str]]) -> list[Page | Dropped]:
        """Return each page, or ``filtered:low_quality``.

        Args:
          pages: The pages.
          counts: Receive the rounded score, such as ``score:3``, or the tenth of a probability, such as ``score:0.3``.
        """
        results: list[Page | Dropped] = []
        for page, score, seen in zip(pages, self.scores([page.text for page in pages]), counts, strict=True):
            seen[f"score:{round(score) if self.label is None else min(int(score * 10), 9) / 10}"] += 1
            results.append(page if score >= self.threshold else Dropped("filtered:low_quality"))
        return results

    def scores(self, texts: Sequence[str]) -> list[float]:
        """Return the score of each text.

        Raises:
          ValueError: The model can't be opened, its head doesn't fit ``label``, or a score is no number.
        """
        predictor = _predictor(self.checkpoint, self.batch_size, self.inputs_length)
        if predictor.can_generate:
            raise ValueError(
                f"{self.checkpoint!r} writes texts; give an encoder that predicts a number or classes"
            )
        if predictor.has_probabilities != (self.label is not None):
            raise ValueError(
                f"EncoderQuality.label is {self.label!r}, and {self.checkpoint!r} predicts "
                + (
                    f"classes: name one of {_names(predictor)}"
                    if predictor.has_probabilities
                    else "no classes"
                )
                + "; a head that predicts a number has label = None"
            )
        if self.label is not None and self.label not in predictor.class_names:
            raise ValueError(f"EncoderQuality.label is {self.label!r}; the classes are {_names(predictor)}")
        beginnings = [text[: self.inputs_length * _CHARS_A_TOKEN] for text in texts]
        # UTF-8 can't represent half a surrogate pair.
        rows = [
            predictor.read({TEXT: text.encode("utf-8", "replace").decode("utf-8")}) for text in beginnings
        ]
        scores = []
        for predicted in predictor.predict(rows):
            shares = predicted.scores
            value = predicted.prediction if self.label is None else dict(shares or {})[self.label]
            scores.append(round(float(value), 4))
        if not all(map(math.isfinite, scores)):
            raise ValueError(f"{self.checkpoint!r} gives a page a score that is no number; train it anew")
        return scores

    def fingerprint(self) -> str:
        """Return a hash of the weights."""
        steps = steps_of(self.checkpoint) if is_run(self.checkpoint) else []
        return f"weights {identity_of(self.checkpoint, steps[-1] if steps else None)}"


def _names(predictor: RowPredictor) -> str:
    return ", ".join(map(repr, predictor.class_names)) or "none"


@functools.lru_cache(maxsize=2)
def _predictor(checkpoint: str, batch_size: int, inputs_length: int) -> RowPredictor:
    opened = open_checkpoint(checkpoint, mesh=MeshConfig().build(), needs_tokenizer=True)
    return checkpoint_predictor(opened, batch_size=batch_size, inputs_length=inputs_length)
