"""Training of WordPiece, byte-level BPE, Sennrich's BPE and word vocabularies with the ``tokenizers`` library."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from etils import epath

from t5x_like.io.files import as_path, read_json, write_json, write_text
from t5x_like.text.vocabularies import definitions
from t5x_like.text.vocabularies.hugging_face_tokenizer import Definition, pieces_of_merge
from t5x_like.text.vocabularies.read_vocabulary import OUR_WORDS
from t5x_like.text.vocabularies.training_corpus import Corpus

if TYPE_CHECKING:
    import tokenizers

PathLike = str | os.PathLike[str]

T5_SPECIAL = ("<pad>", "</s>", "<unk>")
_BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MAX_BYTES = 1 << 16  # bytes of a line trained on at once
_ALPHABET = 1000  # characters, as in BERT; rarer ones are unknown
_CHARACTERS_AT_ONCE = 1 << 20
_FILES_SHOWN = 3


class Alphabet(NamedTuple):
    """Characters to keep, and those that occur in marked positions, such as the end of a word; both sorted."""

    characters: list[str]
    marked: list[str]


def learn_word_piece(
    corpus: Corpus,
    output: PathLike,
    *,
    size: int,
    lower_case: bool,
    min_count: int = 1,
    progress: bool = False,
) -> int:
    """Train BERT's WordPiece vocabulary, and write it with a ``tokenizer_config.json``.

    The library merges the most frequent pair, as BPE does; BERT's own, unpublished trainer may have chosen by
    likelihood
    (Schuster and Nakajima 2012; Devlin et al. 2019, footnote 5 of its code's README).

    Args:
      corpus: Training text.
      output: A ``.txt`` file, or a directory for ``vocab.txt``.
      size: Number of ids, BERT's five special ones included.
      lower_case: Convert text to lower case.
      min_count: Minimum number of occurrences of a merged pair.
      progress: Show a progress bar.

    Returns:
      The number of ids.

    Raises:
      ValueError: Bad text (located by file and line), or too little of it for ``size``.
    """
    from tokenizers import trainers

    path = as_path(output) if str(output).endswith(".txt") else as_path(output) / "vocab.txt"
    configuration = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower_case}
    _refuse_another(path.parent / "tokenizer_config.json", configuration)
    definition = definitions.word_piece(_BERT_SPECIAL, configuration=configuration, lower_case=None)
    alphabet = _alphabet(definition, corpus, lambda word: word[1:])
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=[*_BERT_SPECIAL, *(f"##{character}" for character in alphabet.marked)],
        initial_alphabet=alphabet.characters,
        limit_alphabet=len(alphabet.characters),
        show_progress=_bar(progress),
    )
    pieces = _in_order(_train(definition, corpus, trainer)["model"]["vocab"])
    _require(pieces, size, corpus)
    write_json(path.parent / "tokenizer_config.json", configuration)
    write_text(path, "".join(f"{piece}\n" for piece in pieces))
    return len(pieces)


def learn_byte_pair(
    corpus: Corpus,
    output: PathLike,
    *,
    size: int,
    style: Literal["bytes", "words"],
    lower_case: bool = False,
    min_count: int = 1,
    progress: bool = False,
) -> int:
    """Train BPE over bytes as in GPT-2, or over the characters of words as in Sennrich et al.

    Args:
      corpus: Training text.
      output: A ``.json`` file in the format of ``tokenizer.json``, or a directory for ``vocab.json`` and
        ``merges.txt``.
      size: Number of ids, T5's three special ones included.
      style: "bytes" for GPT-2's, "words" for Sennrich's.
      lower_case: Convert text to lower case; for "words".
      min_count: Minimum number of occurrences of a merged pair.
      progress: Show a progress bar.

    Returns:
      The number of ids.

    Raises:
      ValueError: Bad text (located by file and line), or too little of it for ``size``.
    """
    from tokenizers import pre_tokenizers, trainers

    numbers = {piece: index for index, piece in enumerate(T5_SPECIAL)}
    special = list(T5_SPECIAL)
    options: dict[str, Any] = {
        "vocab_size": size,
        "min_frequency": min_count,
        "show_progress": _bar(progress),
    }
    if style == "bytes":
        if size < len(T5_SPECIAL) + 256:
            raise ValueError(f"256 bytes and {len(T5_SPECIAL)} special ids don't fit into {size} ids")
        definition = definitions.byte_level(numbers, [], prefix_space=False)
        options |= {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    else:
        definition = definitions.sennrich(numbers, [], lower_case=lower_case)
        alphabet = _alphabet(definition, corpus, lambda word: word[-1:])
        special += [f"{character}{definitions.END_OF_WORD}" for character in alphabet.marked]
        options |= {"end_of_word_suffix": definitions.END_OF_WORD, "initial_alphabet": alphabet.characters}
        options |= {"limit_alphabet": len(alphabet.characters)}
    trainer = trainers.BpeTrainer(special_tokens=special, **options)
    trained = _train(definition, corpus, trainer)
    _require(trained["model"]["vocab"], size, corpus)
    _write_byte_pair(trained, output, lower_case=lower_case)
    return len(trained["model"]["vocab"])


def learn_words(
    corpus: Corpus,
    output: PathLike,
    *,
    size: int,
    lower_case: bool = False,
    punctuation_apart: bool = True,
    min_count: int = 1,
    progress: bool = False,
) -> int:
    """Write a vocabulary of the most frequent words after T5's three special ids.

    Args:
      corpus: Training text.
      output: A ``.json`` file.
      size: Maximum number of ids, special ones included.
      lower_case: Convert text to lower case.
      punctuation_apart: Separate punctuation from letters; otherwise words are separated by white space only.
      min_count: Minimum number of occurrences of a word.
      progress: Show a progress bar.

    Returns:
      The number of ids, less than ``size`` if the text has fewer words.

    Raises:
      ValueError: Bad text, located by file and line.
    """
    from tokenizers import trainers

    choices = {"lower_case": lower_case, "punctuation_apart": punctuation_apart}
    trainer = trainers.WordLevelTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(T5_SPECIAL),
        show_progress=_bar(progress),
    )
    trained = _train(definitions.words(T5_SPECIAL, **choices), corpus, trainer)
    pieces = _in_order(trained["model"]["vocab"])
    write_json(output, {"format": OUR_WORDS, **choices, "pieces": pieces})
    return len(pieces)


def _train(definition: Mapping[str, object], corpus: Corpus, trainer: Any) -> Definition:
    from tokenizers import Tokenizer as Engine

    engine: tokenizers.Tokenizer = Engine.from_str(json.dumps(definition))
    try:
        engine.train_from_iterator(corpus, trainer=trainer)
    except Exception:
        if corpus.error is not None:
            raise corpus.error from None
        raise
    trained = json.loads(engine.to_str())
    trained["added_tokens"] = [each for each in trained["added_tokens"] if each["content"] in T5_SPECIAL]
    return trained


def _alphabet(
    definition: Mapping[str, object], corpus: Corpus, marked_part: Callable[[str], str]
) -> Alphabet:
    from tokenizers import Tokenizer as Engine

    engine: tokenizers.Tokenizer = Engine.from_str(json.dumps(definition))
    return count_alphabet(corpus, engine, max_size=_ALPHABET, marked_part=marked_part)


def _bar(progress: bool) -> bool:
    """Return whether the library shows its progress bars; without a terminal they would be empty lines."""
    return progress and sys.stdout.isatty() and sys.stderr.isatty()


def _in_order(numbers: dict[str, int]) -> list[str]:
    return sorted(numbers, key=numbers.__getitem__)


def _require(pieces: Sequence[str] | dict[str, int], size: int, corpus: Corpus) -> None:
    if len(pieces) == size:
        return
    shown = ", ".join(corpus.files[:_FILES_SHOWN]) + (" …" if len(corpus.files) > _FILES_SHOWN else "")
    if len(pieces) > size:
        raise ValueError(
            f"{shown} has so many characters that they need {len(pieces)} ids; set size to at least that"
        )
    raise ValueError(
        f"{shown} gives {len(pieces)} ids, size is {size}: give more text, or set size to at most that"
    )


def _refuse_another(path: epath.Path, configuration: dict[str, object]) -> None:
    if path.exists() and read_json(path, dict) != configuration:
        raise ValueError(f"{path} belongs to another vocabulary; write to a directory of its own")


def _write_byte_pair(trained: Definition, output: PathLike, *, lower_case: bool) -> None:
    if PurePosixPath(output).suffix == ".json":
        write_json(output, trained)
        return
    folder = as_path(output)
    configuration: dict[str, Any] = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    if trained["model"]["end_of_word_suffix"]:
        configuration["do_lower_case"] = lower_case
    _refuse_another(folder / "tokenizer_config.json", configuration)
    write_json(folder / "tokenizer_config.json", configuration)
    merges = (" ".join(pieces_of_merge(merge)) for merge in trained["model"]["merges"])
    write_text(folder / "merges.txt", "".join(f"{line}\n" for line in ("#version: 0.2", *merges)))
    write_json(folder / "vocab.json", trained["model"]["vocab"])


def corpus_of(
    inputs: str | Sequence[str], *, max_lines: int | None = None, seed: int = 0, progress: bool = False
) -> Corpus:
    """Return the text to train these vocabularies on.

    Args:
      inputs: Text files.
      max_lines: Number of lines to draw; None for all.
      seed: Seed of the draw.
      progress: Show progress.
    """
    return Corpus(inputs, max_bytes=_MAX_BYTES, max_lines=max_lines, seed=seed, progress=progress)


def count_alphabet(
    texts: Iterable[str], engine: "tokenizers.Tokenizer", *, max_size: int, marked_part: Callable[[str], str]
) -> Alphabet:
    """Count the characters of the words of a text.

    ``tokenizers`` numbers marked characters (``##a``, ``a</w>``) in the random order of a hash table, and merges
    equally frequent pairs in the order of these numbers. Fixing the order beforehand makes training deterministic.

    Args:
      texts: Training text.
      engine: Tokenizer that splits text into words.
      max_size: Number of most frequent characters to keep.
      marked_part: Returns the characters of a word in marked positions.
    """
    counts: Counter[str] = Counter()
    marked: set[str] = set()
    for text in _joined(texts):
        normal = engine.normalizer.normalize_str(text) if engine.normalizer is not None else text
        for run, count in Counter(normal.split()).items():
            for word, _ in engine.pre_tokenizer.pre_tokenize_str(run):
                for character in word:
                    counts[character] += count
                marked.update(marked_part(word))
    frequent = sorted((-count, character) for character, count in counts.items())[:max_size]
    kept = sorted(character for _, character in frequent)
    return Alphabet(kept, sorted(marked.intersection(kept)))


def _joined(texts: Iterable[str]) -> Iterator[str]:
    parts: list[str] = []
    size = 0
    for text in texts:
        parts.append(text)
        size += len(text)
        if size > _CHARACTERS_AT_ONCE:
            yield "\n".join(parts)
            parts, size = [], 0
    yield "\n".join(parts)
