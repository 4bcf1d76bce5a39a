"""ERNIE's masking of whole phrases and entities, from annotations or from a list."""

import functools
from dataclasses import dataclass

import numpy as np

from t5x_like.config_class import refuse_unused
from t5x_like.io.files import as_path
from t5x_like.io.paths import find_file
from t5x_like.text.objectives.framing import FramedTexts, MaskedTexts
from t5x_like.text.objectives.masking import (
    annotated_spans,
    choose_units,
    inside_spans,
    num_targets,
    token_starts,
    vocabulary_starts,
)
from t5x_like.text.objectives.phrases import Phrases
from t5x_like.text.objectives.word_masking import WordMasking
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds, ids_of


@dataclass(frozen=True, kw_only=True)
class KnowledgeMasking(WordMasking):
    """Masks meaningful units: annotated or listed phrases and entities, and single words.

    ``a new york b`` becomes ``a [MASK] [MASK] b`` if ``new york`` is a unit. Units are the spans in the task's
    ``spans_column`` and the lines of ``word_list``. Of units with the same start the longest counts, of overlapping
    ones the first. Other text is masked word by word; without ``whole_words`` token by token, as for Chinese. With it,
    units are widened to whole words. Annotate or list phrases for the paper's second stage, entities for its third.

    Sun et al. 2019, §3.2, https://arxiv.org/abs/1904.09223.

    Attributes:
      word_list: File with one word, phrase or entity per line.
      vocabulary: Vocabulary that tokenizes ``word_list``; must be the task's own.
    """

    word_list: str | None = None
    vocabulary: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word_list is not None and self.vocabulary is None:
            raise ValueError(
                f"word_list={self.word_list!r} needs the vocabulary that turns it into tokens; set vocabulary to the "
                "task's"
            )
        if self.word_list is None:
            refuse_unused(self, "vocabulary", because="it is for the lines of a word_list, and there is none")

    def check(self, ids: VocabularyIds) -> None:
        """Check the vocabulary and the word list; see ``Masking.check``."""
        super().check(ids)
        if self.word_list is None or self.vocabulary is None:
            return
        own = ids_of(open_tokenizer(self.vocabulary, ids.num_sentinels))
        same = [getattr(own, name) == getattr(ids, name) for name in ("pad", "eos", "unk")]
        size = min(own.vocab_size, ids.vocab_size) - ids.num_sentinels
        if ids.starts_word is not None and own.starts_word is not None:
            same.append(np.array_equal(own.starts_word[:size], ids.starts_word[:size]))
        if not all(same):
            raise ValueError(
                f"vocabulary={self.vocabulary!r} of the word list is not the task's; tokens of the one mean nothing in "
                "the other"
            )
        _phrases(self.word_list, self.vocabulary)

    def mask(self, framed: FramedTexts, seeds: np.ndarray, ids: VocabularyIds) -> MaskedTexts:
        """Mask rows; see ``Masking.mask``.

        Raises:
          ValueError: There are neither annotations nor a word list.
        """
        starts = self._starts(framed, ids)
        units = starts & ~self._continues_phrase(framed, starts)
        is_target = choose_units(units, num_targets(framed, self.noise_density), framed, seeds)
        return self._masked(framed, is_target, seeds, ids)

    def _starts(self, framed: FramedTexts, ids: VocabularyIds) -> np.ndarray:
        # Annotated spans are phrases here, of whole words.
        return vocabulary_starts(framed, ids) if self.whole_words else token_starts(framed)

    def _continues_phrase(self, framed: FramedTexts, starts: np.ndarray) -> np.ndarray:
        """Return the tokens inside a phrase except its first, bool [N, M]."""
        spans = [] if self.word_list is None else [self._listed(framed, starts, self.word_list)]
        spans += annotated_spans(framed)
        if not spans and len(framed.texts):
            raise ValueError(
                "neither annotations nor a list mark the phrases; set the task's spans_column, or the masking's "
                "word_list and vocabulary"
            )
        flat = np.concatenate([np.zeros((0, 2), np.int64), *spans])
        return inside_spans(np.minimum(flat[:, 0] + 1, flat[:, 1]), flat[:, 1], framed)

    def _listed(self, framed: FramedTexts, starts: np.ndarray, word_list: str) -> np.ndarray:
        # Rows begin and end with special ids, which no phrase has: no phrase is found across two rows.
        assert self.vocabulary is not None, "refused when made"
        phrases = _phrases(word_list, self.vocabulary)
        return phrases.find(framed.tokens.ravel(), starts.ravel())


@functools.lru_cache(maxsize=4)
def _phrases(word_list: str, vocabulary: str) -> Phrases:
    """Return the list's phrases of two or more tokens, tokenized as at a text's start and as after a space."""
    words = as_path(find_file(word_list)).read_text(encoding="utf-8").split("\n")
    words = [word.strip() for word in words if word.strip()]
    if not words:
        raise ValueError(f"the word list {word_list!r} is empty; write a word, phrase or entity on each line")
    tokenizer = open_tokenizer(vocabulary)
    encoded = tokenizer.encode_all([*words, *(f" {word}" for word in words)])
    phrases = Phrases(encoded, tokenizer.vocab_size)
    if not len(phrases):
        raise ValueError(
            f"every line of the word list {word_list!r} is one token of {vocabulary!r}; TokenMasking does the same"
        )
    return phrases
