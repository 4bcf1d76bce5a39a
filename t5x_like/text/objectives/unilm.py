"""UniLM's mixture of language models: one encoder that reads both ways, either way, or a source before its target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.framing import FramedTexts, frame, require_frame
from t5x_like.text.objectives.masking import (
    budgets,
    choose,
    joined_starts,
    replace,
    require_rates,
    token_starts,
)
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.segment_cutting import SegmentKind, cut_segments
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

# How a text is read: its label. Of the last, the second segment doesn't follow the first.
BOTH_WAYS, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE_TO_TARGET, BOTH_WAYS_RANDOM = range(5)
_TYPES = np.array([[0, 1], [2, 2], [3, 3], [4, 5], [0, 1]], np.int32)  # of each segment, in the authors' code


@dataclass(frozen=True, kw_only=True)
class UniLM:
    """Masks ``noise_density`` of the tokens; which others each may be predicted from depends on the text.

    One third of the texts is read both ways, one third as source and target (the source both ways, the target from it
    and from what stands before), one sixth from left to right and one sixth from right to left. These are ``ranks``:
    a token sees those of its own rank and lower ones. ``a b`` and ``c d`` as source and target are
    ``[CLS] a b [SEP] c d [SEP]`` with ranks ``0 0 0 0 1 2 3``. Texts read one way have one segment, others two.

    Masked are single tokens (80 %), pairs and triples (10 % each); in their place stands the mask, a random word or
    the word itself. With ``predicts_next``, half of the texts read both ways have a second segment from elsewhere, and
    their label says so: 0 follows, 1 does not; others have none (-1).

    With ``types_tell_kinds`` token types tell the four apart too, and a model needs 6 of them (§2.3: "the segment
    embedding also plays a role of LM identifier"); without, they tell segments apart, as the published models' do.

    Dong et al. 2019, §2.3 and §2.7, https://arxiv.org/abs/1905.03197.
    """

    noise_density: float = 0.15
    mask_rate: float = 0.8
    random_rate: float = 0.1
    shares: tuple[float, float, float] = (0.8, 0.1, 0.1)  # of single tokens, pairs and triples
    predicts_next: bool = True
    types_tell_kinds: bool = False

    def __post_init__(self) -> None:
        require_rates(self.noise_density, self.mask_rate, self.random_rate)
        if min(self.shares) < 0.0 or not sum(self.shares):
            raise ValueError(f"shares must not be negative, nor all 0, got {self.shares}")

    @property
    def spec(self) -> ExampleSpec:
        """An encoder's; who sees whom is in the ranks."""
        label = ("label",) if self.predicts_next else ()
        return ExampleSpec(
            layout="encoder",
            fields=("weights", "token_types", "ranks", *label),
            fills_rows=self.predicts_next,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        require_frame(ids, room=2, limit=lengths.inputs, special=3)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Texts over all documents of the window."""
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
        """Masks texts, and says who sees whom by each text's label."""
        del lengths
        framed = frame(texts, ids)
        kinds = np.array([max(text.label, BOTH_WAYS) for text in texts], np.int64)
        tokens = token_starts(framed)
        starts = joined_starts(tokens, np.array(self.shares), framed, seeds)
        is_target = choose(starts, budgets(framed, self.noise_density), framed, seeds, divisible_at=tokens)
        masked = replace(
            framed, is_target, seeds, ids, mask_rate=self.mask_rate, random_rate=self.random_rate
        )
        weights = is_target.astype(np.float32)
        ranks, types = _ranks(framed, kinds), self._types(framed, kinds)
        return [
            Example(
                inputs=masked.inputs[row, :end],
                targets=framed.tokens[row, :end],
                weights=weights[row, :end],
                ranks=ranks[row, :end],
                token_types=types[row, :end],
                label=self._label(int(kinds[row])),
            )
            for row, end in enumerate(framed.lengths.tolist())
        ]

    def _types(self, framed: FramedTexts, kinds: np.ndarray) -> np.ndarray:
        is_second = np.arange(framed.tokens.shape[1]) >= framed.second[:, None]
        if not self.types_tell_kinds:
            return is_second.astype(np.int32)
        return _TYPES[kinds[:, None], is_second.astype(np.int64)]

    def _label(self, kind: int) -> int:
        if not self.predicts_next:
            return -1
        return {BOTH_WAYS: 0, BOTH_WAYS_RANDOM: 1}.get(kind, -1)


def _ranks(framed: FramedTexts, kinds: np.ndarray) -> np.ndarray:
    """int32 [N, M]."""
    places = np.arange(framed.tokens.shape[1])[None]
    last = framed.lengths[:, None] - 1
    ways = [
        np.zeros_like(places),
        places,
        np.maximum(last - places, 0),
        np.maximum(places - framed.second[:, None] + 1, 0),
    ]
    conditions = [np.isin(kinds, (BOTH_WAYS, BOTH_WAYS_RANDOM))[:, None]]
    conditions += [(kinds == kind)[:, None] for kind in (LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE_TO_TARGET)]
    return np.select(conditions, ways).astype(np.int32)
