"""ERNIE's denoising entity autoencoder: predict entities whose alignment to tokens is hidden or wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from t5x_like.batch import ENTITIES, ENTITY_TARGETS, DataField
from t5x_like.text.objectives.encoder_rows import MaskedPairs, require_shares
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_below, random_fractions
from t5x_like.text.objectives.sentence_pairs import SentencePairs
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_KIND, _ENTITY = 120, 121  # random sequences of a text

ENTITY_STREAMS = tuple(DataField(name, padding=-1) for name in (ENTITIES, ENTITY_TARGETS))


@dataclass(frozen=True, kw_only=True)
class EntityDenoising:
    """Adds entities to the rows of an objective that masks tokens, and to each its right entity as a target.

    An entity belongs to the first token of its mention. ``replace_rate`` of them become another entity, any of all;
    ``mask_rate`` are left out. ``a b c``, where ``b`` mentions entity 7, becomes inputs ``[CLS] a [MASK] c [SEP]``,
    entities ``-1 -1 7 -1 -1`` and entity targets ``-1 -1 7 -1 -1``. Tokens are masked independently of entities.

    Documents need annotations: a ``PretrainingTask`` with ``spans_column`` and ``entity_names``.

    Zhang et al. 2019, §3.5, https://arxiv.org/abs/1905.07129.

    Attributes:
      objective: Objective that masks tokens: ``SentencePairs`` as in the paper, ``MaskedLM``, and others of pairs.
      num_entities: Number of entities, which replacements are drawn from.
      replace_rate: Fraction of the entities that become another one.
      mask_rate: Fraction of the entities that are left out.
    """

    objective: MaskedLM | MaskedPairs = field(default_factory=SentencePairs)
    num_entities: int
    replace_rate: float = 0.05
    mask_rate: float = 0.15

    def __post_init__(self) -> None:
        if not isinstance(self.objective, MaskedLM | MaskedPairs):
            raise ValueError(
                f"objective is {self.objective!r}; entities join rows of SentencePairs(), MaskedLM() and other "
                "objectives that mask tokens of BERT's rows"
            )
        if self.num_entities < 2:
            raise ValueError(f"num_entities is {self.num_entities}; give the number of entities, at least 2")
        require_shares(replace_rate=self.replace_rate, mask_rate=self.mask_rate)
        require_shares(**{"replace_rate + mask_rate": self.replace_rate + self.mask_rate})

    @property
    def spec(self) -> ExampleSpec:
        """Rows of the objective, with entities and their targets."""
        return self.objective.spec.with_streams(ENTITY_STREAMS)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        self.objective.check(lengths, ids)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut as the objective does; see ``Objective.cut``."""
        return self.objective.cut(window, lengths, key)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Make the objective's examples, and add entities; see ``Objective.make``.

        Raises:
          ValueError: Texts have no entities, or one has a number that is too large.
        """
        examples = self.objective.make(texts, seeds, lengths, ids)
        spans = [self._entities_of(text) for text in texts]
        most = max(map(len, spans), default=0)
        kinds = random_fractions(seeds, most, use=_KIND)
        # Others than the right one: numbers from it on move up by one.
        others = random_below(self.num_entities - 1, seeds, most, use=_ENTITY)
        made = []
        for row, (text, example, mentions) in enumerate(zip(texts, examples, spans, strict=True)):
            right, kind, other = mentions[:, 2], kinds[row, : len(mentions)], others[row, : len(mentions)]
            seen = np.where(kind < self.replace_rate, other + (other >= right), right)
            is_hidden = (kind >= self.replace_rate) & (kind < self.replace_rate + self.mask_rate)
            # As in framing.frame: an id before each of the two segments.
            places = mentions[:, 0] + 1 + (mentions[:, 0] >= text.second)
            assert example.targets is not None, "the objective makes them"
            streams = np.full((2, len(example.targets)), -1, np.int32)
            streams[0, places], streams[1, places] = np.where(is_hidden, -1, seen), right
            made.append(example._replace(declared={ENTITIES: streams[0], ENTITY_TARGETS: streams[1]}))
        return made

    def _entities_of(self, text: Text) -> np.ndarray:
        if text.spans is None or text.spans.shape[1] != 3:
            raise ValueError(
                "texts have no entities; give their task spans_column, whose cells are [[start, end, entity], …], and "
                "entity_names, a file with a name on each line"
            )
        if len(text.spans) and int(text.spans[:, 2].max()) >= self.num_entities:
            raise ValueError(
                f"a text has entity number {text.spans[:, 2].max()}, counted from 0, and num_entities is "
                f"{self.num_entities}; give the number of names in entity_names (NUM_ENTITIES in recipes)"
            )
        return text.spans
