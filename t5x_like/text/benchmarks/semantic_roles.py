"""CoNLL-2005: the arguments of verbs, as tags and as text to text (Carreras and Màrquez 2005)."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from t5x_like.io.files import as_path
from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in
from t5x_like.text.benchmarks.span_text import LabeledSpan, escaped, read_spans, write_spans
from t5x_like.text.benchmarks.tagged_files import bracket_tags, columns_of
from t5x_like.text.benchmarks.tagging import tagging_benchmark
from t5x_like.text.metrics import argument_f1
from t5x_like.text.postprocessing import texts_of
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.tasks.text_lines import Line, text_lines
from t5x_like.text.templates import RowValues

_ADJUNCTS = ("ADV", "CAU", "DIR", "DIS", "EXT", "LOC", "MNR", "MOD", "NEG", "PNC", "PRD", "REC", "TM", "TMP")
_ROLES = (*(f"A{index}" for index in range(6)), "AA", "AM", *(f"AM-{kind}" for kind in _ADJUNCTS))
_PHRASES = ("V", "C-V", *(f"{prefix}{role}" for prefix in ("", "C-", "R-") for role in _ROLES))
TAGS = ("O", *(f"{side}-{phrase}" for phrase in _PHRASES for side in "BI"))
_NUMBERS = {tag: index for index, tag in enumerate(TAGS)}


@dataclass
class _Sentence:
    """Lines of a sentence in both files, collected while reading."""

    location: str
    words: list[str] = field(default_factory=list)
    props: list[list[str]] = field(default_factory=list)
    fault: BadRow | None = None


def _read_props(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a row for each verb from a file of words and that of its propositions.

    ``train/words/train.02.words.gz`` and ``train/props/train.02.props.gz`` have a line for each word. A line of the
    latter has the verb's lemma or ``-``, then a column for each verb of the sentence
    (https://www.cs.upc.edu/~srlconll/spec.html). The verb's words are marked: ``*sold*``. See ``source.Reader``.

    Raises:
      ValueError: The file of propositions is missing, or its sentences end elsewhere.
    """
    del split
    for sentence in _sentences(file, _props_of(file)):
        if sentence.fault:
            yield sentence.fault
            continue
        widths = {len(cells) for cells in sentence.props}
        verbs = sum(cells[0] != "-" for cells in sentence.props)
        if widths != {verbs + 1}:
            reason = f"{verbs} verbs, but {' or '.join(str(width - 1) for width in sorted(widths))} columns for them"
            yield BadRow(reason, sentence.location)
            continue
        for column in range(1, verbs + 1):
            try:
                yield RawRow(
                    _row(sentence.words, [cells[column] for cells in sentence.props]), sentence.location
                )
            except ValueError as error:
                yield BadRow(f"column {column} of the verbs: {error}", sentence.location)


def _props_of(file: str) -> str:
    folder, name = os.path.split(file)
    other = os.path.join(os.path.dirname(folder), "props", name.replace(".words", ".props"))
    paths = (other, other.removesuffix(".gz"), f"{other}.gz")
    for path in paths:
        if as_path(path).exists():
            return path
    raise ValueError(f"{file}: no file with the propositions of its words; expected {other}")


def _sentences(file: str, other: str) -> Iterator[_Sentence]:
    sentence: _Sentence | None = None
    end = Line("", 0, "", b"")
    for number, (word, props) in enumerate(
        zip_longest(text_lines(file), text_lines(other), fillvalue=end), start=1
    ):
        fault = word.fault or props.fault
        if not fault and word.is_blank != props.is_blank:
            raise ValueError(
                f"{file}:{number}: a sentence ends here or in {other}, but not in both; are they of the same text?"
            )
        if word.is_blank:
            if sentence:
                yield sentence
            sentence = None
            continue
        sentence = sentence or _Sentence(f"{file}:{number}")
        sentence.fault = sentence.fault or fault
        sentence.words.append(columns_of(word.text)[0])
        sentence.props.append(columns_of(props.text))
    if sentence:
        yield sentence


def _row(words: Sequence[str], cells: Sequence[str]) -> dict[str, object]:
    tags = bracket_tags(cells)
    unknown = [tag for tag in tags if tag not in _NUMBERS]
    if unknown:
        raise ValueError(f"the role {unknown[0][2:]!r} is outside the set: {', '.join(_PHRASES)}")
    if "B-V" not in tags:
        raise ValueError("no word is in '(V*)'")
    marked = [f"*{word}*" if tag in ("B-V", "I-V") else word for word, tag in zip(words, tags, strict=True)]
    return {"tokens": marked, "srl": [_NUMBERS[tag] for tag in tags]}


_SETS = {
    "train": ("train", "train.*"),
    "validation": ("devel", "devel.24"),
    "test": ("test.wsj", "test.wsj"),
    "test_brown": ("test.brown", "test.brown"),
}
_SOURCE = BenchmarkSource(
    layouts=(
        FileLayout(
            files=files_in(
                ("conll2005", "conll05st-release", "conll2005/conll05st-release"),
                {
                    split: (f"{folder}/words/{name}.words.gz", f"{folder}/words/{name}.words")
                    for split, (folder, name) in _SETS.items()
                },
            ),
            read=_read_props,
        ),
    ),
    # Propositions: Carreras and Màrquez 2005, table 1.
    rows={"train": 90_750, "validation": 3_248, "test": 5_267, "test_brown": 804},
    home="https://www.cs.upc.edu/~srlconll (the words are the Penn Treebank's: https://catalog.ldc.upenn.edu/LDC99T42)",
    citation="Carreras and Màrquez 2005, https://aclanthology.org/W05-0620",
    license="the Linguistic Data Consortium's",
    columns={"tokens": "texts", "srl": "ints"},
)
_SENTENCES = (
    ("Ann *sold* the mill .", "B-A0 B-V B-A1 I-A1 O"),
    ("The mill that *burned* in March", "B-A1 I-A1 B-R-A1 B-V B-AM-TMP I-AM-TMP"),
    ("Rain *fell*", "B-A1 B-V"),
)
CONLL2005 = tagging_benchmark(
    "conll2005_srl",
    "CoNLL-2005: the roles of a marked verb's arguments in the Wall Street Journal, as tags",
    column="srl",
    classes=TAGS,
    source=_SOURCE,
    sentences=_SENTENCES,
    metric=argument_f1,
)


def word_arguments(row: RowValues) -> list[FormattedRow]:
    """Word a sentence with its verb in brackets; the target has its arguments and their roles in brackets.

    ``srl text: Ann [ sold ] the mill .`` becomes ``[ Ann | A0 ] sold [ the mill | A1 ] .``: TANL's form (Paolini et al.
    2021, https://arxiv.org/abs/2101.05779), with CoNLL's names of the roles, after a first word of ours.

    Raises:
      ValueError: The numbers of words and tags differ, or a tag is outside the set.
    """
    (tagged,) = CONLL2005.word(row)
    tokens: list[str] = tagged["tokens"]
    tags = [] if tagged["targets"] == UNLABELED else tagged["targets"].split()
    is_verb = [tag in ("B-V", "I-V") for tag in tags] or [_is_marked(token) for token in tokens]
    words = [
        token[1:-1] if verb and _is_marked(token) else token
        for token, verb in zip(tokens, is_verb, strict=True)
    ]
    shown = escaped(words)
    for index, verb in enumerate(is_verb):
        before = index > 0 and is_verb[index - 1]
        after = index + 1 < len(words) and is_verb[index + 1]
        if verb:
            shown[index] = f"{'' if before else '[ '}{shown[index]}{'' if after else ' ]'}"
    targets = write_spans(words, _arguments(tags)) if tags else UNLABELED
    return [{"inputs": f"srl text: {' '.join(shown)}", "targets": targets, "tokens": words}]


def _is_marked(token: str) -> bool:
    return len(token) > 2 and token.startswith("*") and token.endswith("*")


def _arguments(tags: Sequence[str]) -> list[LabeledSpan]:
    """Return the spans of BIO tags but for the verb."""
    spans: list[LabeledSpan] = []
    for index, tag in enumerate(tags):
        role = tag[2:]
        if tag.startswith("I-") and spans and spans[-1].label == role and spans[-1].end == index:
            spans[-1] = spans[-1]._replace(end=index + 1)
        elif role:
            spans.append(LabeledSpan(index, index + 1, role))
    return [span for span in spans if span.label != "V"]


def read_arguments(
    text: str, example: Mapping[str, object] | None = None, is_target: bool = False
) -> list[str]:
    """Return the tags of a written or generated sentence, one for each of the example's words.

    Of arguments that overlap, the first that ends counts. Unknown roles are left out.

    Args:
      text: Sentence with marked arguments.
      example: Row of the sentence, whose ``tokens`` are tagged; None to count words of the text.
      is_target: Unused; true and predicted texts are treated alike.
    """
    del is_target
    words = texts_of(example["tokens"]) if example is not None and "tokens" in example else []
    spans = read_spans(text, words)
    tags = ["O"] * (len(words) or max((span.end for span in spans), default=0))
    for start, end, role in spans:
        if role in _PHRASES and set(tags[start:end]) == {"O"}:
            tags[start:end] = [f"B-{role}", *[f"I-{role}"] * (end - start - 1)]
    return tags


def _text_example(sentence: tuple[str, str], inputs: str, targets: str) -> GoldenExample:
    tokens, tags = sentence[0].split(), sentence[1].split()
    formatted = {"inputs": inputs, "targets": targets, "tokens": sentence[0].replace("*", "").split()}
    return GoldenExample({"tokens": tokens, "srl": [_NUMBERS[tag] for tag in tags]}, (formatted,))


CONLL2005_TEXT = replace(
    CONLL2005,
    name="conll2005_srl_text",
    title="CoNLL-2005: the roles of a marked verb's arguments in the Wall Street Journal, in brackets",
    word=word_arguments,
    postprocess=read_arguments,
    head=None,
    head_task=CONLL2005.name,
    examples=(
        _text_example(
            _SENTENCES[0], "srl text: Ann [ sold ] the mill .", "[ Ann | A0 ] sold [ the mill | A1 ] ."
        ),
        _text_example(
            _SENTENCES[1],
            "srl text: The mill that [ burned ] in March",
            "[ The mill | A1 ] [ that | R-A1 ] burned [ in March | AM-TMP ]",
        ),
        _text_example(_SENTENCES[2], "srl text: Rain [ fell ]", "[ Rain | A1 ] fell"),
    ),
)

BENCHMARKS: tuple[Benchmark, ...] = (CONLL2005, CONLL2005_TEXT)
