"""Heads for a class of mentions: markers in the text show them, and entities of the text are a stream.

Relation classification and entity typing of Zhang et al. 2019, §3.6, https://arxiv.org/abs/1905.07129.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from t5x_like.batch import ENTITIES, DataField
from t5x_like.text.cells import list_of
from t5x_like.text.entity_names import check_span, entity_spans
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import InputFormat
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.multi_label_head import MultiLabelClassification
from t5x_like.text.heads.row_cells import column_of
from t5x_like.text.heads.sequence_head import SequenceClassification
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.token_offsets import encode_with_offsets, first_token
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.value_types import fits


@dataclass(frozen=True, kw_only=True)
class MarkedMentions(HeadFormat):
    """Reads one text, puts a marker before and after each mention, and aligns entities to tokens.

    A marker is one token if the vocabulary has it, such as ``[unused1]`` of BERT's.

    Attributes:
      mentions: Marker of each column that has a mention: [start, end] in characters of the text.
      entities: Column with the entities of the text, [[start, end, entity], …] in characters; None for a model that
        reads none.
      entity_names: File with the name of an entity on each line, in the order of the model's vectors.
    """

    texts: tuple[str, ...]
    mentions: Mapping[str, str]
    entities: str | None = None
    entity_names: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()  # pyright: ignore[reportAttributeAccessIssue] - of the class joined with this one
        is_column = len(self.texts) == 1 and self.texts == tuple(
            f"{{{name}}}" for name in self.input_columns[:1]
        )
        if not is_column:
            raise ValueError(
                f"texts is {self.texts}; mentions are places in one text, so give its column alone, as ('{{text}}',)"
            )
        if not self.mentions or "" in self.mentions.values():
            raise ValueError(
                f"mentions is {dict(self.mentions)}; give a marker for the column of each mention, as "
                "{'head': '[HD]', 'tail': '[TL]'}"
            )
        if (self.entities is None) != (self.entity_names is None):
            raise ValueError(
                f"entities={self.entities!r} and entity_names={self.entity_names!r}: the column of entities and "
                "the file with their names need each other; give both, or neither"
            )

    @property
    def streams(self) -> tuple[DataField, ...]:
        """The entity of each token, if the format has them."""
        return () if self.entities is None else (DataField(ENTITIES, padding=-1),)

    @property
    def input_columns(self) -> tuple[str, ...]:
        entities = () if self.entities is None else (self.entities,)
        return tuple(dict.fromkeys((*super().input_columns, *self.mentions, *entities)))

    def read(self, values: RowValues) -> LabeledRow:
        """Implement ``HeadFormat``.

        Raises:
          ValueError: As ``HeadFormat.read``; or a text has no such mention or entity.
        """
        row = super().read(values)
        text = row.texts[0][0]
        places = [
            (*self._mention(values, column, len(text)), marker) for column, marker in self.mentions.items()
        ]
        entities: tuple[tuple[int, int, int], ...] = ()
        if self.entities is not None and self.entity_names is not None:
            try:
                entities = entity_spans(column_of(values, self.entities), len(text), self.entity_names)
            except ValueError as error:
                raise ValueError(f"column {self.entities!r}: {error}") from None
        marked, entities = mark_mentions(text, places, entities)
        return row._replace(texts=((marked,),), entities=entities)

    def encode(
        self,
        rows: Sequence[LabeledRow],
        first: int,
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        stride: int,
    ) -> Iterator[LabeledExample]:
        """Yield tokenized examples; see ``HeadFormat.encode``. Entities that are cut off are left out."""
        if self.entities is None:
            yield from super().encode(rows, first, tokenizer, input_format, stride=stride)
            return
        for origin, row in enumerate(rows, start=first):
            placed = encode_with_offsets(tokenizer, row.texts[0][0])
            joined = input_format.join([placed.ids])
            stream = np.full(len(joined.tokens), -1, np.int32)
            num_before, num_kept = len(input_format.start), len(placed.ids) - joined.num_cut
            for start, end, number in row.entities:
                position = first_token(placed, start, end)
                if position is not None and position < num_kept:
                    stream[num_before + position] = number
            for example in self.examples_of(row, origin, [joined]):
                yield example._replace(declared={ENTITIES: stream})

    def _mention(self, values: RowValues, column: str, length: int) -> tuple[int, int]:
        expected = "[start, end], two whole numbers,"
        try:
            mention = list_of(column_of(values, column), expected)
            if not fits(mention, list[int]) or len(mention) != 2:
                raise ValueError(f"{expected} is expected for the mention to mark")
            check_span(mention[0], mention[1], length)
        except ValueError as error:
            raise ValueError(f"column {column!r}: {error}") from None
        return mention[0], mention[1]


@dataclass(frozen=True, kw_only=True)
class MentionClassification(MarkedMentions, SequenceClassification):
    """One class of marked mentions: the relation of two, with ``mentions={"head": "[HD]", "tail": "[TL]"}``.

    The class token's output is classified, as in ``SequenceClassification``.
    """

    texts: tuple[str, ...] = ("{text}",)
    mentions: Mapping[str, str] = field(default_factory=lambda: {"head": "[HD]", "tail": "[TL]"})


@dataclass(frozen=True, kw_only=True)
class MentionTyping(MarkedMentions, MultiLabelClassification):
    """Any number of classes of a marked mention, such as its types.

    The class token's output is classified, as in ``MultiLabelClassification``.
    """

    texts: tuple[str, ...] = ("{text}",)
    mentions: Mapping[str, str] = field(default_factory=lambda: {"mention": "[ENT]"})


def mark_mentions(
    text: str, mentions: Sequence[tuple[int, int, str]], spans: Sequence[tuple[int, int, int]]
) -> tuple[str, tuple[tuple[int, int, int], ...]]:
    """Return a text with markers around mentions, and the moved spans of its entities.

    >>> mark_mentions("Ann saw Oslo", [(0, 3, "[HD]"), (8, 12, "[TL]")], [(8, 12, 5)])
    ('[HD] Ann [HD] saw [TL] Oslo [TL]', ((23, 27, 5),))

    Args:
      text: The text.
      mentions: First character of each mention, the one after its last, and its marker.
      spans: First character of each entity, the one after its last, and its number.
    """
    # At one place a mention ends before the next one starts, the inner one first, and the outer one starts first.
    ends = [(end, 0, -start, f" {marker}") for start, end, marker in mentions]
    starts = [(start, 1, -end, f"{marker} ") for start, end, marker in mentions]
    inserted = [(place, words) for place, _, _, words in sorted([*ends, *starts])]
    parts, last = [], 0
    for place, words in inserted:
        parts += [text[last:place], words]
        last = place
    moved = tuple(
        (
            start + sum(len(words) for place, words in inserted if place <= start),
            end + sum(len(words) for place, words in inserted if place < end),
            number,
        )
        for start, end, number in spans
    )
    return "".join([*parts, text[last:]]), moved
