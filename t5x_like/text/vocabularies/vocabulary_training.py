"""Training of vocabularies of any kind, described by one configuration."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from t5x_like.io.files import write_json
from t5x_like.text.vocabularies import sentencepiece_training, tokenizers_training
from t5x_like.text.vocabularies.read_vocabulary import OUR_CHARACTERS
from t5x_like.text.vocabularies.training_corpus import Corpus

Kind = Literal["unigram", "bpe", "wordpiece", "bytebpe", "words", "characters"]
KINDS: tuple[str, ...] = get_args(Kind)

# Kinds to which each option applies.
_FOR: dict[str, tuple[str, ...]] = {
    "end_of_word": ("bpe",),
    "lower_case": ("wordpiece", "words", "bpe"),
    "min_count": ("wordpiece", "bytebpe", "words", "characters", "bpe"),
    "whitespace_only": ("words",),
    "character_coverage": ("unigram", "bpe"),
    "byte_fallback": ("unigram", "bpe"),
    "pieces": ("unigram", "bpe"),
}
_SENNRICH_ONLY, _NOT_SENNRICH = ("lower_case", "min_count"), ("character_coverage", "byte_fallback", "pieces")
_ENDINGS = {"unigram": ".model", "bpe": ".model", "words": ".json", "characters": ".json"}


@dataclass(frozen=True, kw_only=True)
class VocabularyTraining:
    """Vocabulary to train from UTF-8 text files.

    | kind | output | special ids |
    |---|---|---|
    | ``unigram``, ``bpe`` | a SentencePiece ``.model`` | T5's: padding 0, end 1, unknown 2 |
    | ``bpe`` with ``end_of_word`` (Sennrich's) | a ``tokenizer.json``, or a directory | T5's |
    | ``bytebpe`` (GPT-2's) | a ``tokenizer.json``, or a directory | T5's |
    | ``wordpiece`` (BERT's) | a ``vocab.txt``, or a directory | BERT's five, padding 0 |
    | ``words``, ``characters`` | a ``.json`` | T5's |

    The same files and options give the same vocabulary, byte for byte.

    Attributes:
      kind: Type of the vocabulary.
      inputs: Text files.
      output: File or directory to write.
      size: Number of ids, special ones included and sentinels not.
      end_of_word: Mark the ends of words (Sennrich's BPE).
      lower_case: Convert text to lower case.
      min_count: Minimum number of occurrences of a pair, word or character.
      whitespace_only: Separate words by white space only, not also from punctuation.
      character_coverage: Fraction of all characters that get a piece.
      byte_fallback: Encode other characters as bytes instead of the unknown id.
      pieces: Strings that become one piece each.
      max_sentences: Number of lines; of more, about that many are sampled.
      seed: Seed of the sample.

    Raises:
      ValueError: An unknown kind, an option that doesn't apply to the kind, or an output of another kind.
    """

    kind: Kind
    inputs: str | Sequence[str]
    output: str | os.PathLike[str]
    size: int
    end_of_word: bool = False
    lower_case: bool = False
    min_count: int = 1
    whitespace_only: bool = False
    character_coverage: float = 0.9995
    byte_fallback: bool = False
    pieces: Sequence[str] = ()
    max_sentences: int = 5_000_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there is no kind {self.kind!r}; choose from {', '.join(KINDS)}")
        for value, name in (
            (self.size, "size"),
            (self.min_count, "min_count"),
            (self.max_sentences, "max_sentences"),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        defaults = {field.name: field.default for field in fields(self)}
        for name, kinds in _FOR.items():
            if getattr(self, name) != defaults[name] and not self._takes(name, kinds):
                raise ValueError(f"{name} is not for {self._words()}, but for {_listed_kinds(name, kinds)}")
        ending = "" if self.end_of_word else _ENDINGS.get(self.kind, "")
        if not os.fspath(self.output).endswith(ending):
            raise ValueError(
                f"{self._words()} writes a {ending} file, so output can't be {os.fspath(self.output)!r}"
            )

    def run(self, *, progress: bool = False) -> int:
        """Train the vocabulary, write it atomically, and return the number of ids.

        Raises:
          ValueError: Bad text (located by file and line), or text that doesn't fit ``size``.
        """
        if self.kind in ("unigram", "bpe") and not self.end_of_word:
            return self._sentencepiece(progress)
        corpus = tokenizers_training.corpus_of(
            self.inputs, max_lines=self.max_sentences, seed=self.seed, progress=progress
        )
        if self.kind == "characters":
            return learn_characters(corpus, self.output, size=self.size, min_count=self.min_count)
        options: dict[str, Any] = {"size": self.size, "lower_case": self.lower_case}
        options |= {"min_count": self.min_count, "progress": progress}
        if self.kind == "wordpiece":
            return tokenizers_training.learn_word_piece(corpus, self.output, **options)
        if self.kind == "words":
            is_apart = not self.whitespace_only
            return tokenizers_training.learn_words(corpus, self.output, punctuation_apart=is_apart, **options)
        style = "words" if self.end_of_word else "bytes"
        return tokenizers_training.learn_byte_pair(corpus, self.output, style=style, **options)

    def _sentencepiece(self, progress: bool) -> int:
        sentencepiece_training.learn_sentencepiece(
            self.inputs,
            self.output,
            size=self.size,
            kind="bpe" if self.kind == "bpe" else "unigram",
            character_coverage=self.character_coverage,
            byte_fallback=self.byte_fallback,
            pieces=self.pieces,
            max_sentences=self.max_sentences,
            seed=self.seed,
            progress=progress,
        )
        return self.size

    def _takes(self, name: str, kinds: Sequence[str]) -> bool:
        if self.kind == "bpe" and name in (*_SENNRICH_ONLY, *_NOT_SENNRICH):
            return self.end_of_word == (name in _SENNRICH_ONLY)
        return self.kind in kinds

    def _words(self) -> str:
        return f"kind {self.kind}" + (" with end_of_word" if self.end_of_word else "")


def _listed_kinds(name: str, kinds: Sequence[str]) -> str:
    return ", ".join(
        "bpe with end_of_word" if kind == "bpe" and name in _SENNRICH_ONLY else kind for kind in kinds
    )


_NUM_SPECIAL = 3


def learn_characters(corpus: Corpus, output: str | os.PathLike[str], *, size: int, min_count: int = 1) -> int:
    """Write a vocabulary of the most frequent code points after T5's three special ids.

    The end of a line counts as a character.

    Args:
      corpus: Training text.
      output: A ``.json`` file.
      size: Maximum number of ids, special ones included.
      min_count: Minimum number of occurrences of a character.

    Returns:
      The number of ids, less than ``size`` if the text has fewer characters.

    Raises:
      ValueError: Bad text (located by file and line), or ``size`` is too small for any character.
    """
    if size <= _NUM_SPECIAL:
        raise ValueError(
            f"{_NUM_SPECIAL} ids are special, so size must be at least {_NUM_SPECIAL + 1}, got {size}"
        )
    counts: Counter[str] = Counter()
    for line in corpus:
        counts.update(line)
        counts["\n"] += 1
    frequent = sorted((-count, character) for character, count in counts.items() if count >= min_count)
    characters = "".join(character for _, character in frequent[: size - _NUM_SPECIAL])
    write_json(output, {"format": OUR_CHARACTERS, "characters": characters})
    return _NUM_SPECIAL + len(characters)
