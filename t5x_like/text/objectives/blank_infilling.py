"""GLM's autoregressive blank infilling, with its document-level and sentence-level variants."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from t5x_like.config_class import refuse_unused
from t5x_like.index_checks import check_indices
from t5x_like.text.objectives.blanks import Blanks, RandomSpans, draw_lengths, infilling_examples, place_apart
from t5x_like.text.objectives.framing import require_ids
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_bits, random_fractions, seeds_of_rows
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_SHORT, _DOCUMENT, _SENTENCES = range(3)  # type of a text's blanks: its label
_LENGTHS, _PLACES, _ORDER, _SENTENCE = range(4)  # random sequences of a text
_LONGEST = 39  # tokens of a short blank, in the authors' code
_TOKENS_PER_SENTENCE = 4  # shortest average that the row length allows for


@dataclass(frozen=True, kw_only=True)
class BlankIds:
    """Ids of vocabularies made for GLM; other ids of the vocabulary replace absent ones.

    Attributes:
      mask: ``[MASK]`` of short blanks; else the vocabulary's mask.
      generation_mask: ``[gMASK]`` of a long blank at the end; else the first sentinel.
      sentence_mask: ``[sMASK]`` of sentences; else the second sentinel.
      start: Id before a blank's tokens; else the beginning of sequence.
      end: Id after a blank's tokens; else the end of sequence.
    """

    mask: int | None = None
    generation_mask: int | None = None
    sentence_mask: int | None = None
    start: int | None = None
    end: int | None = None

    def check(self, ids: VocabularyIds) -> None:
        """Check that the vocabulary has these ids.

        Raises:
          ValueError: It lacks one.
        """
        for name, token_id in asdict(self).items():
            if token_id is not None:
                check_indices(
                    token_id, f"special.{name}", ids.vocab_size, wanted="the vocabulary has the ids"
                )


@dataclass(frozen=True, kw_only=True)
class BlankInfilling:
    """Replaces parts of a text by masks, and predicts them autoregressively, blank after blank in random order.

    ``a b c d`` with the blanks ``b c`` and ``a``, in this order, reads ``[CLS] [M] [M] d [START] b c [START] a`` and
    predicts ``b c [END] a [END]``. Tokens of a blank have the position of its ``[M]``; see ``infilling_examples``.

    A text has blanks of one type. Short blanks have lengths from Poisson(``mean_length``) without 0, until
    ``noise_density`` of the tokens are blank. A document blank (``[gMASK]``) is at the end and holds
    ``min_document_share`` to all of the tokens. Sentence blanks (``[sMASK]``) are whole sentences, until
    ``noise_density`` of the tokens are blank.

    Texts are documents or parts of them, short enough to leave space for the blanks. If more blanks are drawn than
    fit, the last short one is longer, and fewer sentences are blank.

    Du et al. 2022, §2.1-2.3, https://arxiv.org/abs/2103.10360. Gaps between short blanks follow the authors' code,
    https://github.com/THUDM/GLM, which puts long blanks at the end or, in half of the texts, anywhere.

    Attributes:
      noise_density: Fraction of the tokens in short or sentence blanks.
      mean_length: Average length of short blanks in tokens, before lengths of 0 are excluded.
      document_rate: Fraction of the texts with a document blank.
      sentence_rate: Fraction of the texts with sentence blanks; the remaining texts have short blanks.
      min_document_share: Minimum fraction of the tokens in a document blank.
      special: Ids of the vocabulary's own masks and marks.
    """

    noise_density: float = 0.15
    mean_length: float = 3.0
    document_rate: float = 0.0
    sentence_rate: float = 0.0
    min_document_share: float = 0.5
    special: BlankIds = BlankIds()

    def __post_init__(self) -> None:
        if not 0.0 < self.noise_density <= 0.5:
            raise ValueError(f"noise_density must be above 0 and at most 0.5, got {self.noise_density}")
        if not 1.0 <= self.mean_length <= 10.0:
            raise ValueError(f"mean_length must lie between 1 and 10 tokens, got {self.mean_length}")
        if min(self.document_rate, self.sentence_rate) < 0.0 or self.document_rate + self.sentence_rate > 1.0:
            raise ValueError(
                f"document_rate={self.document_rate} and sentence_rate={self.sentence_rate} must not be negative, nor "
                "be over 1 together; short blanks have the remaining rate"
            )
        if not 0.0 < self.min_document_share <= 1.0:
            raise ValueError(
                f"min_document_share must be above 0 and at most 1, got {self.min_document_share}"
            )
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """Refuse options of blanks that no text has."""
        if not self.document_rate:
            refuse_unused(
                self, "min_document_share", because="no text has a document blank (document_rate is 0)"
            )
        if self.document_rate + self.sentence_rate == 1.0:
            refuse_unused(self, "mean_length", because="no text has short blanks (the two rates add up to 1)")
        if self.document_rate == 1.0:
            refuse_unused(
                self, "noise_density", because="every text has a document blank (document_rate is 1)"
            )

    @property
    def spec(self) -> ExampleSpec:
        """Decoder examples whose part A is a bidirectional prefix."""
        return ExampleSpec(
            layout="decoder",
            fields=("inputs", "weights", "prefix", "positions", "block_positions"),
            needs_sentences=self.sentence_rate > 0.0,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        least = min(self._text_length(kind, lengths.targets) for kind in range(3))
        if least < 2:
            raise ValueError(
                f"a decoder's stream of targets_length={lengths.targets} is too short for a text and its blanks; set "
                "it to 16 or more"
            )
        require_ids({name: self._id(name, ids) for name in ("mask", "start", "end")} | {"cls": ids.cls})
        self.special.check(ids)
        own = self.special.generation_mask, self.special.sentence_mask
        wanted = (self.document_rate > 0.0 and own[0] is None, self.sentence_rate > 0.0 and own[1] is None)
        needed = 2 if wanted[1] else int(wanted[0])
        if ids.num_sentinels < needed:
            raise ValueError(
                f"{needed} sentinels are needed as masks of documents and sentences, the vocabulary has "
                f"{ids.num_sentinels}; raise num_sentinels"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut documents into parts as long as their type of blanks allows; the type is the label."""
        most = [max(self._text_length(kind, lengths.targets), 1) for kind in range(3)]
        count = int(np.sum(-(-np.diff(window.ends, prepend=0) // min(most)))) if len(window.ends) else 0
        drawn = random_fractions(seeds_of_rows(key, np.arange(count)), 1)[:, 0]
        edges = (1.0 - self.document_rate - self.sentence_rate, 1.0 - self.sentence_rate)
        kinds = iter(np.searchsorted(edges, drawn, side="right").tolist())
        blanks, start = [], 0
        for stop in window.ends.tolist():
            while start < stop:
                kind = next(kinds)
                end = min(start + most[kind], stop)
                blanks.append((start, end, kind))
                start = end
        table = np.array(blanks, np.int64).reshape(-1, 3)
        return Cuts(table[:, :1], table[:, 1:2], table[:, 2])

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Draw blanks by each text's label, and build the examples; see ``Objective.make``."""
        kinds = np.array([max(text.label, _SHORT) for text in texts], np.int64)
        sizes = np.array([len(text.tokens) for text in texts], np.int64)
        blanks_of_rows = [
            np.zeros((0, 3), np.int64),
            _span_table(np.flatnonzero(kinds == _SHORT), self._short(sizes, kinds, seeds, lengths)),
            _span_table(np.flatnonzero(kinds == _DOCUMENT), self._at_end(sizes, kinds, seeds)),
        ]
        for row in np.flatnonzero(kinds == _SENTENCES).tolist():
            blanks_of_rows.append(self._sentences(row, texts[row], seeds[row : row + 1], lengths))
        blanks = np.concatenate(blanks_of_rows)
        blanks = blanks[np.lexsort((blanks[:, 1], blanks[:, 0]))]
        rows, starts, ends = blanks.T
        masks = [self._id(name, ids) or 0 for name in ("mask", "generation_mask", "sentence_mask")]
        numbers = np.arange(len(rows)) - np.searchsorted(rows, rows)
        order = random_bits(seeds, int(numbers.max(initial=0)) + 1, use=_ORDER)[rows, numbers]
        start, end = self._id("start", ids), self._id("end", ids)
        assert None not in (ids.cls, start, end), "check refuses such vocabularies"
        return infilling_examples(
            texts,
            Blanks(rows, starts, ends, np.array(masks)[kinds[rows]], order),
            cls=ids.cls or 0,
            start=start or 0,
            end=end or 0,
        )

    def _id(self, name: str, ids: VocabularyIds) -> int | None:
        id_of_vocabulary = getattr(self.special, name)
        instead = {
            "mask": ids.mask,
            "generation_mask": ids.first_sentinel,
            "sentence_mask": ids.first_sentinel - 1,
            "start": ids.bos,
            "end": ids.eos,
        }
        return instead[name] if id_of_vocabulary is None else id_of_vocabulary

    @property
    def _shares(self) -> np.ndarray:
        """Poisson probabilities of the lengths from 1 on, up to a factor."""
        return np.array([self.mean_length**n / math.factorial(n) for n in range(1, _LONGEST + 1)])

    def _goal(self, size: int) -> int:
        return max(int(size * self.noise_density), 1)

    def _max_blanks(self, kind: int, size: int) -> int:
        """Return the number of blanks that a text allows for: of short ones, enough for 99.9 % of texts."""
        goal = self._goal(size)
        if kind == _DOCUMENT:
            return 1
        if kind == _SENTENCES:
            return -(-goal // _TOKENS_PER_SENTENCE)
        shares = self._shares / np.sum(self._shares)
        numbers = np.arange(1, _LONGEST + 1)
        mean = float(shares @ numbers)
        variance = float(shares @ numbers**2) - mean**2
        return min(math.ceil(goal / mean + 1 + 3 * math.sqrt(goal * variance / mean**3)), goal)

    def _text_length(self, kind: int, limit: int) -> int:
        """Return the most tokens that fit ``limit`` together with cls and two ids per blank; 0 if none do."""
        size = limit - 3
        while size > 0 and size + 1 + 2 * self._max_blanks(kind, size) > limit:
            size -= 1
        return max(size, 0)

    def _short(
        self, sizes: np.ndarray, kinds: np.ndarray, seeds: np.ndarray, lengths: Lengths
    ) -> RandomSpans:
        """Draw short blanks; the number of columns is that of a full text, so rows don't depend on each other."""
        chosen = kinds == _SHORT
        most = self._max_blanks(_SHORT, self._text_length(_SHORT, lengths.targets))
        totals = sizes[chosen]
        goals = np.maximum((totals * self.noise_density).astype(np.int64), 1)
        fractions = random_fractions(seeds[chosen], most, use=_LENGTHS)
        drawn = draw_lengths(goals, self._shares, fractions, totals)
        return place_apart(drawn, totals, random_fractions(seeds[chosen], most, use=_PLACES))

    def _at_end(self, sizes: np.ndarray, kinds: np.ndarray, seeds: np.ndarray) -> RandomSpans:
        chosen = kinds == _DOCUMENT
        totals = sizes[chosen]
        least = np.maximum(np.ceil(totals * self.min_document_share).astype(np.int64), 1)
        fractions = random_fractions(seeds[chosen], 1, use=_LENGTHS)[:, 0]
        drawn = least + (fractions * (totals - least + 1)).astype(np.int64)
        return RandomSpans((totals - drawn)[:, None], drawn[:, None])

    def _sentences(self, row: int, text: Text, seed: np.ndarray, lengths: Lengths) -> np.ndarray:
        """Draw whole sentences until their share or their maximum number is reached."""
        inside = np.zeros(0, np.int64) if text.sentence_ends is None else text.sentence_ends
        edges = np.concatenate([[0], inside, [len(text.tokens)]])
        order = np.argsort(random_bits(seed, len(edges) - 1, use=_SENTENCE)[0], kind="stable")
        sizes = np.diff(edges)[order]
        most = self._max_blanks(_SENTENCES, self._text_length(_SENTENCES, lengths.targets))
        masked = order[np.cumsum(sizes) - sizes < self._goal(len(text.tokens))][:most]
        return np.stack([np.full(len(masked), row), edges[masked], edges[masked + 1]], axis=1)


def _span_table(rows: np.ndarray, spans: RandomSpans) -> np.ndarray:
    """Return row, start and end of each span, int64 [S, 3]."""
    is_used = spans.lengths > 0
    starts = spans.starts[is_used]
    numbers = np.broadcast_to(rows[:, None], is_used.shape)[is_used]
    return np.stack([numbers, starts, starts + spans.lengths[is_used]], axis=1)
