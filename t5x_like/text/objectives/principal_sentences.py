"""PEGASUS' gap sentences: the most important sentences of a document are masked, and predicted together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from t5x_like.text.objectives.framing import require_ids
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_fractions
from t5x_like.text.objectives.sentence_cutting import cut_full_sentences
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_NOISE, _KEEP, _RATE = range(3)  # random sequences of a text


@dataclass(frozen=True, kw_only=True)
class PrincipalSentences:
    """Masks the sentences that are most like the rest of their document; the targets are these, one after the other.

    ``a b. c d. e f.`` becomes inputs ``a b. <mask> e f.`` and targets ``c d.``. A sentence's importance is its ROUGE-1
    F1 against all other sentences of the text, each scored by itself. Texts are as many whole sentences of a document
    as fit. Texts of one sentence are left out.

    N-grams are ids of the vocabulary, not words as in the papers' code. Sentences that don't fit the targets stay.

    Zhang et al. 2020, §3.1, https://arxiv.org/abs/1912.08777; Guo et al. 2022, §3.2, https://arxiv.org/abs/2112.07916.

    Attributes:
      gap_rate: Largest fraction of a text's sentences that is masked; at least one is.
      least_share: Each text's fraction is drawn between this share of ``gap_rate`` and all of it; 1 for no draw.
      counts_once: Count each id of a sentence once ("Uniq"); otherwise as often as it occurs ("Orig").
      score_noise: Scores are multiplied by a uniform number between ``1 - score_noise`` and ``1 + score_noise``.
      keep_rate: Fraction of the chosen sentences that also stay in the inputs.
    """

    gap_rate: float = 0.2
    least_share: float = 0.33
    counts_once: bool = True
    score_noise: float = 0.2
    keep_rate: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.gap_rate < 1.0:
            raise ValueError(f"gap_rate must lie between 0 and 1, got {self.gap_rate}")
        for name in ("least_share", "score_noise", "keep_rate"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie from 0 to 1, got {getattr(self, name)}")

    @property
    def spec(self) -> ExampleSpec:
        """Encoder-decoder examples from sentences of separate documents."""
        return ExampleSpec(layout="encoder_decoder", ends_documents=True, needs_sentences=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        require_ids({"mask": ids.mask})
        if min(lengths) < 8:
            raise ValueError(
                f"inputs_length of {lengths.inputs} and targets_length of {lengths.targets} are too short for whole "
                "sentences; use at least 8 for both"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut texts of at least two whole sentences; see ``Objective.cut``."""
        del key
        cuts = cut_full_sentences(window, lengths.inputs - 1, across_documents=False)
        if window.sentence_ends is None:  # of an empty window
            return cuts
        edges = [np.searchsorted(window.sentence_ends, at) for at in (cuts.starts + 1, cuts.ends)]
        has_two = (edges[1] > edges[0])[:, 0]
        return Cuts(cuts.starts[has_two], cuts.ends[has_two])

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Choose, mask and join sentences; see ``Objective.make``."""
        edges = [_edges(text) for text in texts]
        most = max((len(each) - 1 for each in edges), default=0)
        noise = 1.0 + self.score_noise * (2.0 * random_fractions(seeds, most, use=_NOISE) - 1.0)
        stays = random_fractions(seeds, most, use=_KEEP) < self.keep_rate
        share = self.least_share + (1.0 - self.least_share) * random_fractions(seeds, 1, use=_RATE)[:, 0]
        made = []
        for index, (text, bounds) in enumerate(zip(texts, edges, strict=True)):
            count = len(bounds) - 1
            scores = sentence_scores(text.tokens, bounds, counts_once=self.counts_once) * noise[index, :count]
            wanted = max(int(self.gap_rate * share[index] * count), 1)
            chosen = _choose(scores, np.diff(bounds), wanted, lengths.targets - 1)
            made.append(_example(text.tokens, bounds, chosen, stays[index], lengths, ids))
        return made


def sentence_scores(tokens: np.ndarray, edges: np.ndarray, *, counts_once: bool) -> np.ndarray:
    """Return each sentence's ROUGE-1 F1 against all others together, float64 [S].

    Args:
      tokens: Ids of all sentences, [L].
      edges: Edges of the sentences, int64 [S + 1].
      counts_once: Count each id of a sentence, and of the others, once.
    """
    count = len(edges) - 1
    _, kinds = np.unique(tokens, return_inverse=True)
    num_kinds = int(kinds.max(initial=-1)) + 1
    sentences = np.repeat(np.arange(count), np.diff(edges))
    pairs, inside = np.unique(sentences * num_kinds + kinds, return_counts=True)
    of_sentence, of_kind = pairs // num_kinds, pairs % num_kinds
    outside = np.bincount(of_kind, inside, num_kinds)[of_kind] - inside
    if counts_once:
        inside, outside = np.ones_like(inside), np.minimum(outside, 1)
        rest = num_kinds - np.bincount(of_sentence, outside == 0, count)
    else:
        rest = len(tokens) - np.diff(edges)
    shared = np.bincount(of_sentence, np.minimum(inside, outside), count)
    # 2 p r / (p + r), with p = shared / own and r = shared / rest.
    return 2.0 * shared / np.maximum(np.bincount(of_sentence, inside, count) + rest, 1)


def _edges(text: Text) -> np.ndarray:
    assert text.sentence_ends is not None, "windows of this objective mark sentences"
    return np.concatenate([[0], text.sentence_ends, [len(text.tokens)]]).astype(np.int64)


def _choose(scores: np.ndarray, sizes: np.ndarray, wanted: int, limit: int) -> np.ndarray:
    """Return the best ``wanted`` sentences that fit ``limit`` tokens together, bool [S].

    The best is taken even if it alone is too long.
    """
    best = np.argsort(-scores, kind="stable")
    chosen = np.zeros(len(scores), bool)
    for sentence in best.tolist():
        if chosen.sum() < wanted and sizes[chosen].sum() + sizes[sentence] <= limit:
            chosen[sentence] = True
    if not chosen.any():
        chosen[best[0]] = True
    return chosen


def _example(
    tokens: np.ndarray,
    edges: np.ndarray,
    chosen: np.ndarray,
    stays: np.ndarray,
    lengths: Lengths,
    ids: VocabularyIds,
) -> Example:
    mask, end = np.array([ids.mask], np.int32), np.array([ids.eos], np.int32)
    parts = [tokens[start:stop] for start, stop in pairwise(edges.tolist())]
    inputs = [
        mask if is_chosen and not kept else part
        for part, is_chosen, kept in zip(parts, chosen.tolist(), stays[: len(parts)].tolist(), strict=True)
    ]
    targets = np.concatenate(
        [part for part, is_chosen in zip(parts, chosen.tolist(), strict=True) if is_chosen]
    )
    return Example(
        inputs=np.concatenate([*inputs, end]),
        targets=np.concatenate([targets[: lengths.targets - 1], end]),
    )
