"""Reading of vocabulary files: SentencePiece, ``tokenizers``' formats, tiktoken and our own JSON."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import as_path, read_json
from t5x_like.text.vocabularies import definitions, sentencepiece_tokenizer, tiktoken_tokenizer
from t5x_like.text.vocabularies.added_tokens import added_tokens, ordinary_contents
from t5x_like.text.vocabularies.character_tokenizer import CharacterTokenizer
from t5x_like.text.vocabularies.gguf_vocabulary import is_gguf, read_gguf_vocabulary
from t5x_like.text.vocabularies.hugging_face_tokenizer import Definition, HuggingFaceTokenizer
from t5x_like.text.vocabularies.roles import is_markup
from t5x_like.text.vocabularies.tokenizer import Tokenizer

OUR_WORDS, OUR_CHARACTERS = "t5x_like words", "t5x_like characters"
CHAT_TEMPLATE = (
    "chat_template.jinja"  # transformers' file since version 4.43; it overrules tokenizer_config.json
)
SPM_CHAR = "spm_char.model"  # SpeechT5's characters
_KINDS = (
    "a SentencePiece .model, a tokenizer.json, BERT's vocab.txt, vocab.json with merges.txt, a .tiktoken file, a .gguf "
    "file, or what `t5x-like vocabulary learn` writes"
)


class Files(NamedTuple):
    """Main file of a vocabulary, and companion files.

    Attributes:
      name: Path as the user wrote it.
      main: Path of the main file.
      companions: Paths of other known files in the same directory, by name.
    """

    name: str
    main: str
    companions: Mapping[str, str]

    def json(self, name: str) -> dict[str, Any]:
        """Return the object in a companion file; empty if there is no such file."""
        if name not in self.companions:
            return {}
        return read_json(self.companions[name], dict)

    def configuration(self) -> dict[str, Any]:
        """Return the companion files' settings of special pieces, text normalization and chats."""
        configuration = {**self.json("special_tokens_map.json"), **self.json("tokenizer_config.json")}
        if (template := self.companions.get(CHAT_TEMPLATE)) is not None:
            configuration["chat_template"] = as_path(template).read_text(encoding="utf-8")
        return configuration


def read_vocabulary(files: Files, num_sentinels: int, lower_case: bool | None) -> Tokenizer:
    """Open the tokenizer that ``files`` define.

    Args:
      files: Files of the vocabulary.
      num_sentinels: Number of sentinels to add, unless the vocabulary has its own.
      lower_case: Convert text to lower case; None follows the configuration.

    Raises:
      ValueError: An unknown kind, a damaged file, or ``lower_case`` for a file that decides it itself.
    """
    with refusing_damage(files.main):
        return _read(files, num_sentinels, lower_case)


def _read(files: Files, num_sentinels: int, lower_case: bool | None) -> Tokenizer:
    path = PurePosixPath(files.main)
    if is_gguf(files.main):
        _refuse_lower_case(files, lower_case)
        read = read_gguf_vocabulary(files.main)
        options = {"num_sentinels": num_sentinels, "configuration": read.configuration}
        return HuggingFaceTokenizer(files.name, read.definition, **options)
    content = as_path(files.main).read_bytes()
    if path.suffix == ".json" or path.name == "merges.txt":
        definition, kind = _definition_of_json(files, lower_case)
    elif path.suffix == ".txt" and _is_word_pieces(content):
        definition, kind = _word_piece(files, content, lower_case), "wordpiece"
    else:
        _refuse_lower_case(files, lower_case)
        return _not_hugging_face(files, content, num_sentinels)
    if kind == "characters":
        return CharacterTokenizer(files.name, definition["characters"], num_sentinels=num_sentinels)
    return HuggingFaceTokenizer(
        files.name, definition, num_sentinels=num_sentinels, configuration=files.configuration(), kind=kind
    )


def _refuse_lower_case(files: Files, lower_case: bool | None) -> None:
    if lower_case is not None:
        raise ValueError(
            f"{files.name!r}: lower_case is for word pieces and byte pairs; this file decides it"
        )


def _not_hugging_face(files: Files, content: bytes, num_sentinels: int) -> Tokenizer:
    path = PurePosixPath(files.main)
    if path.suffix == ".tiktoken":
        return tiktoken_tokenizer.open_ranks(files.name, content, stem=path.stem, num_sentinels=num_sentinels)
    configuration = files.configuration()
    try:
        if path.name == SPM_CHAR or configuration.get("tokenizer_class") == "SpeechT5Tokenizer":
            content, configuration = _speecht5(files, content, configuration)
        tokenizer = sentencepiece_tokenizer.SentencePieceTokenizer(
            files.name,
            content,
            num_sentinels=num_sentinels,
            configuration=configuration,
            path=files.main,
        )
    except ValueError as error:
        if path.suffix == ".model":
            raise
        raise ValueError(f"{files.name!r} is no vocabulary; what can be opened is {_KINDS}") from error
    _refuse_added_tokens(files, tokenizer)
    return tokenizer


def _speecht5(files: Files, content: bytes, configuration: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Return the model with ``<mask>`` and ``<ctc_blank>``, which were added to it, and the configuration."""
    if configuration.get("normalize"):
        raise ValueError(
            f"{files.name!r}: normalize=true in tokenizer_config.json spells numbers out, which is not done here; "
            "write false, and spell them out in the texts"
        )
    pieces = [piece.piece for piece in sentencepiece_tokenizer.parse_model(files.name, content).pieces]
    numbers = {piece: token_id for token_id, piece in enumerate(pieces)}
    further = [
        token
        for token in added_tokens(configuration, files.json("added_tokens.json"), numbers)
        if token["content"] not in numbers and (token["special"] or is_markup(token["content"]))
    ]
    wanted = range(len(pieces), len(pieces) + len(further))
    if [token["id"] for token in further] != list(wanted):
        shown = ", ".join(f"{token['content']} {token['id']}" for token in further)
        raise ValueError(
            f"{files.name!r} has {len(pieces)} pieces, and added tokens have other ids than those after them: {shown}"
        )
    content = sentencepiece_tokenizer.with_control_pieces(
        files.name, content, [token["content"] for token in further]
    )
    return content, {"add_bos_token": False, "add_eos_token": True, **configuration}


def _refuse_added_tokens(files: Files, tokenizer: sentencepiece_tokenizer.SentencePieceTokenizer) -> None:
    """Refuse a model that has no piece for a token that was added to it: its text would have other ids."""
    added = ordinary_contents(
        files.configuration(), files.json("added_tokens.json"), dict.fromkeys(tokenizer.pieces, 0)
    )
    if added:
        shown = ", ".join(map(repr, added[:3])) + (", …" if len(added) > 3 else "")
        raise ValueError(
            f"{files.name!r} is a SentencePiece model to which {len(added)} tokens were added ({shown}); these are "
            "read from a tokenizer.json, which AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers "
            "writes"
        )


def _definition_of_json(files: Files, lower_case: bool | None) -> tuple[Definition, str]:
    """Return the definition in a JSON file, and its kind."""
    path = files.main if files.main.endswith(".json") else files.companions.get("vocab.json")
    if path is None:
        raise ValueError(f"{files.name!r} needs the vocab.json that belongs to it in the same folder")
    value = read_json(path, dict)
    if value.get("format") == OUR_CHARACTERS:
        return value, "characters"
    if value.get("format") == OUR_WORDS:
        return _words(value), "words"
    if isinstance(value.get("model"), dict):
        _refuse_lower_case(files, lower_case)
        return value, "tokenizer.json"
    if value and all(isinstance(value_id, int) for value_id in value.values()):
        return _byte_pair(files, path, value, lower_case), "bytepair"
    raise ValueError(f"{files.name!r} is no vocabulary; what can be opened is {_KINDS}")


def _byte_pair(files: Files, path: str, numbers: dict[str, int], lower_case: bool | None) -> Definition:
    merges_path = files.main if files.main.endswith("merges.txt") else files.companions.get("merges.txt")
    if merges_path is None:
        raise ValueError(
            f"{files.name!r} needs the merges.txt that belongs to it in the same folder; Marian's source.spm is not "
            "read"
        )
    lines = as_path(merges_path).read_text(encoding="utf-8").split("\n")
    merges: list[tuple[str, str]] = []
    for line_number, line in enumerate(lines, start=1):
        if not line.strip() or (line_number == 1 and line.startswith("#version")):
            continue
        first, _, second = line.removesuffix("\r").partition(" ")
        if not second or " " in second:
            raise ValueError(
                f"{merges_path}:{line_number}: a merge is two pieces with a space between, not {line!r}"
            )
        if first + second not in numbers:
            raise ValueError(
                f"{merges_path}:{line_number}: {first + second!r} is not in {path}; they don't belong together"
            )
        merges.append((first, second))
    configuration = files.configuration()
    added = added_tokens(configuration, files.json("added_tokens.json"), numbers)
    numbers = {**numbers, **{token["content"]: token["id"] for token in added}}
    try:
        definition = definitions.byte_pair(
            numbers, merges, configuration=configuration, lower_case=lower_case
        )
    except ValueError as error:
        raise ValueError(f"{files.name!r}: {error}") from error
    return {**definition, "added_tokens": added}


def _words(value: Mapping[str, Any]) -> Definition:
    return definitions.words(
        value["pieces"], lower_case=value["lower_case"], punctuation_apart=value["punctuation_apart"]
    )


def _is_word_pieces(content: bytes) -> bool:
    lines = content.split(b"\n")
    return any(line.strip() in (b"[UNK]", b"<unk>") for line in lines) or any(
        line.startswith(b"##") and b" " not in line.strip() for line in lines
    )


def _word_piece(files: Files, content: bytes, lower_case: bool | None) -> Definition:
    # Only \n ends a line: others of Unicode's line ends are pieces of their own.
    lines = content.decode("utf-8").removesuffix("\n").split("\n")
    pieces = [line.removesuffix("\r") for line in lines]
    configuration = files.configuration()
    definition = definitions.word_piece(pieces, configuration=configuration, lower_case=lower_case)
    unknown = json.dumps(definition["model"]["unk_token"])
    if definition["model"]["unk_token"] not in definition["model"]["vocab"]:
        raise ValueError(f"{files.name!r} has no line {unknown}, which unknown words need")
    numbers = definition["model"]["vocab"]
    return {
        **definition,
        "added_tokens": added_tokens(configuration, files.json("added_tokens.json"), numbers),
    }
