"""The columns of a table that are its texts, its label and its groups, guessed by their names and cells."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.table import Column, UserTable

Kind = Literal["classify", "multilabel", "regress", "tags", "answers", "text", "pretrain"]
# Descriptions of a model, which continue "A model that".
KINDS_ABOUT: Mapping[Kind, str] = {
    "classify": "assigns a text to a class",
    "multilabel": "chooses all labels that fit a text",
    "regress": "predicts a number for a text",
    "tags": "tags the words of a sentence",
    "answers": "answers a question by a span of a context",
    "text": "reads a text and writes another",
    "pretrain": "learns from plain text",
}

_TEXT_NAMES = (
    "text", "sentence", "review", "review_text", "review_body", "content", "body", "message", "comment", "tweet",
    "document", "article", "abstract", "description", "definition", "utterance", "query", "question", "prompt", "input",
    "inputs", "source", "title", "headline",
)  # fmt: skip
_LABEL_NAMES = (
    "label", "labels", "class", "category", "target", "targets", "output", "outputs", "sentiment", "intent", "topic",
    "score", "rating", "stars", "tag", "tags", "genre", "genres", "y", "summary", "highlights", "translation", "answer",
    "response", "completion", "type", "language", "is_spam", "spam", "polarity", "emotion", "toxic", "similarity",
)  # fmt: skip
_ANSWERS = ("answers", "answer", "answer_text")
_WORDS = ("tokens", "words", "text", "sentence")
_TAGS = ("tags", "ner_tags", "pos_tags", "labels", "ner", "pos", "chunk_tags", "bio")
_PAIRS = (
    ("premise", "hypothesis"), ("query", "document"), ("query", "passage"), ("question", "sentence"),
    ("question", "passage"), ("anchor", "positive"), ("claim", "evidence"), ("sentence", "paraphrase"),
)  # fmt: skip
_GROUP = re.compile(
    r"(group|user|author|speaker|patient|customer|subject|doc|document|article|session|thread|conversation|dialog(ue)?|"
    r"family|source|product|item|book|movie|video|page)_?(id|name|number)?|(group|fold)s?"
)
_MAX_CLASSES = 200
_MAX_NUMBERS = 20  # whole numbers of more values are amounts, not classes
_MAX_CLASS_LENGTH = 60  # mean characters of a class's name
_SEPARATORS = ("|", ";", ",")
_LEAST_SEVERAL = 0.1  # share of cells with several labels, where the kind is guessed


@dataclass(frozen=True, kw_only=True)
class ColumnGuess:
    """Columns of a project.

    Attributes:
      kind: Kind of the task.
      texts: Columns that the model reads.
      label: Column that it learns; empty for plain text.
      group: Column whose rows with equal cells stay in one split; None without groups.
      separator: String between several labels of a cell; None for lists, and for one label.
    """

    kind: Kind
    texts: tuple[str, ...]
    label: str
    group: str | None = None
    separator: str | None = None

    @property
    def read(self) -> tuple[str, ...]:
        """All columns that rows need."""
        return (*self.texts, self.label) if self.label else self.texts


def guess_columns(
    table: UserTable,
    *,
    kind: Kind | None = None,
    texts: Sequence[str] = (),
    label: str | None = None,
    group: str | None = None,
) -> ColumnGuess:
    """Guess the columns that are not named.

    Args:
      table: The table.
      kind: Kind of the task; None guesses it from the labels.
      texts: Columns with the texts; empty to guess them.
      label: Column with the labels.
      group: Column with groups.

    Raises:
      UserError: A column doesn't exist, or nothing can be guessed.
    """
    for name, flag in [*((name, "text") for name in texts), (label, "label"), (group, "group")]:
        if name is not None:
            table.column(name, flag)
    if label in texts:
        raise UserError(f"text and label both name {label!r}; give two columns")
    if kind == "pretrain" and label is not None:
        raise UserError(
            f"label={label} is not for task=pretrain, which learns the text itself; leave one out"
        )
    special = _guess_answers(table, kind, texts, label) or _guess_tags(table, kind, texts, label)
    if special is None:
        texts = tuple(texts) or _guess_texts(table, label)
        others = [name for name, column in table.columns.items() if name not in texts and column.cells]
        if kind == "pretrain" or (kind is None and label is None and not others):
            special = ColumnGuess(kind="pretrain", texts=texts[:1], label="")
        else:
            label = label or _guess_label(table, texts)
            special = _guess_kind(table.columns[label], kind, texts)
    group = group or _guess_group(table, special.read)
    return replace(special, group=group)


def _guess_answers(
    table: UserTable, kind: Kind | None, texts: Sequence[str], label: str | None
) -> ColumnGuess | None:
    """Return the columns of extractive answers, as SQuAD names them; None for another table."""
    columns = table.columns
    named = [_with_name(columns, name) for name in ("question", "context")]
    answers = label or next((column for name in _ANSWERS if (column := _with_name(columns, name))), None)
    if kind not in (None, "answers") or (kind is None and (texts or label or None in named or not answers)):
        return None
    pair = tuple(texts) or tuple(name for name in named if name is not None)
    if len(pair) != 2 or answers is None:
        raise UserError(
            f"{table.file}: extractive answers need a question, a context and answers in it; the columns are "
            f"{', '.join(map(repr, table.column_names))}",
            hint="name them: text=QUESTION, CONTEXT and label=ANSWERS",
        )
    return ColumnGuess(kind="answers", texts=pair, label=answers)


def _guess_tags(
    table: UserTable, kind: Kind | None, texts: Sequence[str], label: str | None
) -> ColumnGuess | None:
    """Return two columns of lists with equal lengths, words and their tags; None for another table."""
    if kind not in (None, "tags"):
        return None
    lists = [name for name, column in table.columns.items() if column.is_list or kind == "tags"]
    words = list(texts) or [name for name in lists if name != label and _normalized(name) in _WORDS][:1]
    tags = label or next((name for name in lists if name not in words and _normalized(name) in _TAGS), None)
    if kind is None and len(lists) == 2 and not (words and tags):
        words, tags = lists[:1], lists[1]
    if kind is None and not (words and tags and {*words, tags} <= {*lists}):
        return None
    if len(words) != 1 or tags is None:
        raise UserError(
            f"{table.file}: tags need a column with lists of words and one with a tag for each; the columns are "
            f"{', '.join(map(repr, table.column_names))}",
            hint="name them: text=WORDS and label=TAGS",
        )
    pairs = [
        (row.cells[words[0]], row.cells[tags]) for row in table.rows if {words[0], tags} <= row.cells.keys()
    ]
    if kind is None and any(len(first) != len(second) for first, second in pairs):
        return None
    return ColumnGuess(kind="tags", texts=(words[0],), label=tags)


def _guess_texts(table: UserTable, label: str | None) -> tuple[str, ...]:
    columns = {
        name: column
        for name, column in table.columns.items()
        if name != label and column.is_text and not column.is_number
    }
    for pair in (*_PAIRS, *_numbered_pairs(list(columns))):
        names = tuple(_with_name(columns, name) for name in pair)
        if all(names):
            return tuple(name for name in names if name is not None)
    named = next((candidate for name in _TEXT_NAMES if (candidate := _with_name(columns, name))), None)
    if named is not None:
        return (named,)
    unnamed = [name for name in columns if _normalized(name) not in _LABEL_NAMES] or list(columns)
    if not unnamed:
        raise UserError(
            f"{table.file} has no column with texts; the columns are {', '.join(map(repr, table.column_names))}",
            hint="name it: text=COLUMN",
        )
    return (max(unnamed, key=lambda name: columns[name].mean_length),)


def _numbered_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of columns such as sentence1 and sentence2, or text_a and text_b."""
    pairs = []
    for name in names:
        for first, second in (("1", "2"), ("_a", "_b"), ("A", "B"), ("_left", "_right")):
            other = name.removesuffix(first) + second
            if name.endswith(first) and other in names and name != first:
                pairs.append((name, other))
    return [pair for pair in pairs if not pair[0].startswith("column_")]


def _guess_label(table: UserTable, texts: Sequence[str]) -> str:
    others = {name: column for name, column in table.columns.items() if name not in texts and column.cells}
    named = next((candidate for name in _LABEL_NAMES if (candidate := _with_name(others, name))), None)
    if named is not None:
        return named
    classes = [name for name, column in others.items() if _is_class(column) and not _is_group_name(name)]
    if len(classes) == 1:
        return classes[0]
    if len(others) == 1:
        return next(iter(others))
    listed = ", ".join(map(repr, classes or table.column_names))
    problem = "several columns may be" if len(classes) > 1 else "no column looks like"
    raise UserError(f"{table.file}: {problem} the label; choose from {listed}", hint="name it: label=COLUMN")


def _guess_kind(column: Column, kind: Kind | None, texts: tuple[str, ...]) -> ColumnGuess:
    separator = _guess_separator(column) if kind in (None, "multilabel") else None
    if kind is None:
        if separator is not None or (column.is_list and _recur(column.cells)):
            kind = "multilabel"
        elif _is_class(column):
            kind = "classify"
        else:
            kind = "regress" if column.is_number else "text"
    return ColumnGuess(kind=kind, texts=texts, label=column.name, separator=separator)


def _guess_separator(column: Column) -> str | None:
    """Return the string between several labels of a cell; None if cells have one label each.

    The parts must recur in other combinations: "Austin, TX" is one label, and sentences have other words each time.
    """
    if not column.is_text or column.is_number:
        return None
    for separator in _SEPARATORS:
        parts = [[part.strip() for part in cell.split(separator)] for cell in column.cells]
        several = [each for each in parts if len(each) > 1]
        if max(map(len, parts)) == 2 and all(part.isdecimal() for each in parts for part in each):
            continue  # decimal commas
        if len(several) < _LEAST_SEVERAL * len(parts) or not all(map(all, parts)) or not _recur(parts):
            continue
        sets_with: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for each in parts:
            for part in each:
                sets_with[part].add(tuple(each))
        combined = {part for each in several for part in each}
        if combined and 2 * sum(len(sets_with[part]) > 1 for part in combined) >= len(combined):
            return separator
    return None


def _recur(lists: Sequence[Sequence[object]]) -> bool:
    """Return whether the items of lists repeat as the names of classes do."""
    sizes = Counter(item for items in lists for item in items if isinstance(item, str))
    is_text = sizes.total() == sum(map(len, lists))
    length = sum(map(len, sizes)) / max(len(sizes), 1)
    return is_text and len(sizes) <= min(_MAX_CLASSES, sizes.total() // 3) and length <= _MAX_CLASS_LENGTH / 2


def _is_class(column: Column) -> bool:
    """Return whether cells repeat as the names of classes do."""
    if not column.is_text or column.num_distinct > max(2, len(column.cells) // 3):
        return False
    if column.is_number:
        return column.is_whole_number and column.num_distinct <= _MAX_NUMBERS
    return column.num_distinct <= _MAX_CLASSES and column.mean_length <= _MAX_CLASS_LENGTH


def _guess_group(table: UserTable, others: Sequence[str]) -> str | None:
    """Return a column of groups by its name, if several groups have several rows."""
    for name, column in table.columns.items():
        if name in others or not _is_group_name(name) or not column.is_text:
            continue
        sizes = Counter(column.cells)
        if len(sizes) >= 5 and len(sizes) < len(column.cells) and max(sizes.values()) <= len(table.rows) // 4:
            return name
    return None


def _is_group_name(name: str) -> bool:
    return _GROUP.fullmatch(_normalized(name)) is not None


def _with_name(columns: dict[str, Column], name: str) -> str | None:
    """Return the column of this name, ignoring case and signs between words."""
    return next((column for column in columns if _normalized(column) == _normalized(name)), None)


def is_usual_name(name: str) -> bool:
    """Return whether columns of texts or labels often have a name."""
    return _normalized(name) in (*_TEXT_NAMES, *_LABEL_NAMES)


def _normalized(name: str) -> str:
    return re.sub(r"[\s\-.]+", "_", name.strip().lower())
