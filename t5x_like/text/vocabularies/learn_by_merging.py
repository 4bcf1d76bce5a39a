"""Learning WordPiece, byte-level BPE, Sennrich's BPE and words, with the ``tokenizers`` library."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from t5x_like.io.files import as_path, read_json, write_json, write_text
from t5x_like.text.vocabularies import definitions
from t5x_like.text.vocabularies.alphabet import Alphabet, count_alphabet
from t5x_like.text.vocabularies.read_vocabulary import OUR_WORDS
from t5x_like.text.vocabularies.training_corpus import Corpus

if TYPE_CHECKING:
    import tokenizers

PathLike = str | os.PathLike[str]

T5_SPECIAL = ("<pad>", "</s>", "<unk>")
_BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LONGEST = 1 << 16  # bytes of a line that are read together
_ALPHABET = 1000  # BERT's: rarer characters are unknown
_INPUTS_TOLD = 3


def learn_word_piece(
    corpus: Corpus,
    output: PathLike,
    *,
    size: int,
    lower_case: bool,
    min_count: int = 1,
    progress: bool = False,
) -> int:
    """Learns BERT's kind of pieces; ``output`` is a ``.txt`` file or a directory for ``vocab.txt``, and gets a
    ``tokenizer_config.json`` beside it. Returns the number of ids: ``size``, BERT's five special ones included.

    The library merges the most frequent pair, as BPE does; BERT's own, unpublished trainer may have chosen by
    likelihood (Schuster and Nakajima 2012; Devlin et al. 2019, footnote 5 of its code's README).

    Raises:
      ValueError: bad text (named by file and line), or too little of it for ``size``.
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
    """Learns BPE over bytes as GPT-2 has it, or over the characters of words as Sennrich et al. have.

    Special ids are T5's, counted in ``size``. ``output`` is a ``.json`` file in the format of ``tokenizer.json``, or
    a directory for ``vocab.json`` and ``merges.txt``. Returns the number of ids.

    Raises:
      ValueError: bad text (named by file and line), or too little of it for ``size``.
    """
    from tokenizers import pre_tokenizers, trainers

    numbers = {piece: number for number, piece in enumerate(T5_SPECIAL)}
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
    learnt = _train(definition, corpus, trainer)
    _require(learnt["model"]["vocab"], size, corpus)
    _write_byte_pair(learnt, output, lower_case=lower_case)
    return len(learnt["model"]["vocab"])


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
    """Keeps the ``size - 3`` most frequent words that occur ``min_count`` times, after T5's special ids.

    Words are what white space separates, and punctuation from letters if it is ``punctuation_apart``. Returns the
    number of ids, which is less than ``size`` where the text has fewer words.

    Raises:
      ValueError: bad text, named by file and line.
    """
    from tokenizers import trainers

    choices = {"lower_case": lower_case, "punctuation_apart": punctuation_apart}
    trainer = trainers.WordLevelTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(T5_SPECIAL),
        show_progress=_bar(progress),
    )
    learnt = _train(definitions.words(T5_SPECIAL, **choices), corpus, trainer)
    pieces = _in_order(learnt["model"]["vocab"])
    write_json(output, {"format": OUR_WORDS, **choices, "pieces": pieces})
    return len(pieces)


def _train(definition: dict[str, Any], corpus: Corpus, trainer: Any) -> dict[str, Any]:
    from tokenizers import Tokenizer as Engine

    engine: tokenizers.Tokenizer = Engine.from_str(json.dumps(definition))
    try:
        engine.train_from_iterator(corpus, trainer=trainer)
    except Exception:
        if corpus.error is not None:
            raise corpus.error from None
        raise
    learnt = json.loads(engine.to_str())
    learnt["added_tokens"] = [each for each in learnt["added_tokens"] if each["content"] in T5_SPECIAL]
    return learnt


def _alphabet(definition: dict[str, Any], corpus: Corpus, marked_part: Callable[[str], str]) -> Alphabet:
    from tokenizers import Tokenizer as Engine

    engine: tokenizers.Tokenizer = Engine.from_str(json.dumps(definition))
    return count_alphabet(corpus, engine, most=_ALPHABET, marked_part=marked_part)


def _bar(progress: bool) -> bool:
    """Whether the library draws its bars; where there is no terminal it would print empty lines."""
    return progress and sys.stdout.isatty() and sys.stderr.isatty()


def _in_order(numbers: dict[str, int]) -> list[str]:
    return sorted(numbers, key=numbers.__getitem__)


def _require(pieces: Sequence[str] | dict[str, int], size: int, corpus: Corpus) -> None:
    if len(pieces) == size:
        return
    told = ", ".join(corpus.files[:_INPUTS_TOLD]) + (" …" if len(corpus.files) > _INPUTS_TOLD else "")
    if len(pieces) > size:
        raise ValueError(
            f"{told} has so many characters that they take {len(pieces)} ids; ask for at least that"
        )
    raise ValueError(
        f"{told} gives {len(pieces)} ids, {size} are asked: give more text, or ask for at most that"
    )


def _refuse_another(path: Any, configuration: dict[str, Any]) -> None:
    if path.exists() and read_json(path) != configuration:
        raise ValueError(f"{path} belongs to another vocabulary; write to a directory of its own")


def _write_byte_pair(learnt: dict[str, Any], output: PathLike, *, lower_case: bool) -> None:
    if PurePosixPath(output).suffix == ".json":
        write_json(output, learnt)
        return
    folder = as_path(output)
    configuration: dict[str, Any] = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    if learnt["model"]["end_of_word_suffix"]:
        configuration["do_lower_case"] = lower_case
    _refuse_another(folder / "tokenizer_config.json", configuration)
    write_json(folder / "tokenizer_config.json", configuration)
    merges = (pair if isinstance(pair, str) else " ".join(pair) for pair in learnt["model"]["merges"])
    write_text(folder / "merges.txt", "".join(f"{line}\n" for line in ("#version: 0.2", *merges)))
    write_json(folder / "vocab.json", learnt["model"]["vocab"])


def corpus_of(
    inputs: str | Sequence[str], *, most_lines: int | None = None, seed: int = 0, progress: bool = False
) -> Corpus:
    """The text that these kinds are learnt from."""
    return Corpus(inputs, longest=_LONGEST, most_lines=most_lines, seed=seed, progress=progress)
