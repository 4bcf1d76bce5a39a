"""UniLM's mixture of bidirectional, unidirectional and sequence-to-sequence language models in one encoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, frame, require_frame, rows_to_examples
from t5x_like.text.objectives.masking import (
    choose_units,
    ngram_starts,
    num_targets,
    replace_targets,
    require_rates,
    token_starts,
)
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.segment_cutting import SegmentKind, cut_segments
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

# Attention pattern of a text: its label. In the last, the second segment doesn't follow the first.
BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE_TO_TARGET, BIDIRECTIONAL_RANDOM = range(5)
_TYPES = np.array([[0, 1], [2, 2], [3, 3], [4, 5], [0, 1]], np.int32)  # of each segment, in the authors' code
NUM_PATTERN_TYPES = int(_TYPES.max()) + 1


@dataclass(frozen=True, kw_only=True)
class UniLM:
    """Masks ``noise_density`` of the tokens; each text has one of four attention patterns.

    One third of the texts is bidirectional. One third is a source and a target: the source is bidirectional, the
    target attends to it and to its own previous tokens. One sixth is left to right, one sixth right to left. ``ranks``
    encode this: a token attends to tokens of its own and lower ranks. ``a b`` and ``c d`` as source and target are
    ``[CLS] a b [SEP] c d [SEP]`` with ranks ``0 0 0 0 1 2 3``. Unidirectional texts have one segment, others two.

    Targets become the mask, a random token or stay as they are.

    Dong et al. 2019, §2.3 and §2.7, https://arxiv.org/abs/1905.03197.

    Attributes:
      noise_density: Fraction of the tokens to predict.
      mask_rate: Fraction of these that become the mask.
      random_rate: Fraction of these that become a random token.
      shares: Relative frequency of masked single tokens, pairs and triples.
      predicts_next: Draw the second segment of half of the bidirectional texts from elsewhere. Their label is 0 if it
        follows and 1 if it doesn't; other texts have none (-1).
      types_by_pattern: Let token types identify the patterns too; a model needs 6 of them (§2.3: "the segment
        embedding also plays a role of LM identifier"). By default they only distinguish segments, as in the published
        models.
    """

    noise_density: float = 0.15
    mask_rate: float = 0.8
    random_rate: float = 0.1
    shares: tuple[float, float, float] = (0.8, 0.1, 0.1)  # of single tokens, pairs and triples
    predicts_next: bool = True
    types_by_pattern: bool = False

    def __post_init__(self) -> None:
        require_rates(self.noise_density, self.mask_rate, self.random_rate)
        if min(self.shares) < 0.0 or not sum(self.shares):
            raise ValueError(f"shares must not be negative, nor all 0, got {self.shares}")

    @property
    def spec(self) -> ExampleSpec:
        """Encoder examples whose attention mask is given by ranks."""
        label = ("label",) if self.predicts_next else ()
        return ExampleSpec(
            layout="encoder",
            fields=("weights", "token_types", "ranks", *label),
            label_loss="sentence_pairs" if self.predicts_next else None,
            fills_rows=self.predicts_next,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        require_frame(ids, min_tokens=2, limit=lengths.inputs, num_special=3)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut texts over all documents of the window; see ``Objective.cut``."""
        one, two = lengths.inputs - 2, lengths.inputs - 3
        random_share = 1 / 6 if self.predicts_next else 0.0
        kinds = [
            SegmentKind(1 / 3 - random_share, two, True),
            SegmentKind(1 / 6, one),
            SegmentKind(1 / 6, one),
            SegmentKind(1 / 3, two, True),
            SegmentKind(random_share, two, True, True),
        ]
        return cut_segments(window, kinds, key)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Mask texts, and set ranks by each text's label; see ``Objective.make``."""
        del lengths
        framed = frame(texts, ids)
        kinds = np.array([max(text.label, BIDIRECTIONAL) for text in texts], np.int64)
        tokens = token_starts(framed)
        starts = ngram_starts(tokens, np.array(self.shares), framed, seeds)
        is_target = choose_units(
            starts, num_targets(framed, self.noise_density), framed, seeds, divisible_at=tokens
        )
        masked = replace_targets(
            framed, is_target, seeds, ids, mask_rate=self.mask_rate, random_rate=self.random_rate
        )
        return rows_to_examples(
            framed.lengths,
            [self._label(kind) for kind in kinds.tolist()],
            inputs=masked.inputs,
            targets=framed.tokens,
            weights=is_target.astype(np.float32),
            ranks=_ranks(framed, kinds),
            token_types=self._types(framed, kinds),
        )

    def _types(self, framed: FramedTexts, kinds: np.ndarray) -> np.ndarray:
        is_second = np.arange(framed.tokens.shape[1]) >= framed.second[:, None]
        if not self.types_by_pattern:
            return is_second.astype(np.int32)
        return _TYPES[kinds[:, None], is_second.astype(np.int64)]

    def _label(self, kind: int) -> int:
        if not self.predicts_next:
            return -1
        return {BIDIRECTIONAL: 0, BIDIRECTIONAL_RANDOM: 1}.get(kind, -1)


def _ranks(framed: FramedTexts, kinds: np.ndarray) -> np.ndarray:
    """Return attention ranks, int32 [N, M]."""
    columns = np.arange(framed.tokens.shape[1])[None]
    last = framed.lengths[:, None] - 1
    ways = [
        np.zeros_like(columns),
        columns,
        np.maximum(last - columns, 0),
        np.maximum(columns - framed.second[:, None] + 1, 0),
    ]
    conditions = [np.isin(kinds, (BIDIRECTIONAL, BIDIRECTIONAL_RANDOM))[:, None]]
    conditions += [(kinds == kind)[:, None] for kind in (LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE_TO_TARGET)]
    return np.select(conditions, ways).astype(np.int32)
