"""Tables for models that write: texts to texts, and plain text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from t5x_like.gin_config.user_error import UserError
from t5x_like.projects.base_model import BaseModel
from t5x_like.projects.project_rows import ProjectRow
from t5x_like.projects.run_sizes import measure_lengths, pretraining_sizes, text_sizes
from t5x_like.projects.table import TableRow
from t5x_like.projects.task_kinds import RunChoices, TaskKind
from t5x_like.value_types import fits

_ROW_LENGTH, _SHORTEST = 128, 32  # tokens of a row of plain text
_OBJECTIVES = {"encoder": "masked_lm", "decoder": "causal_lm", "encoder_decoder": "span_corruption"}
_SHORT = 4  # mean words of an answer that is right or wrong as a whole


class TextToText(TaskKind):
    """A text that is written for each text."""

    template: ClassVar[str] = "text_from_table.gin.jinja"

    def _answer(self, row: TableRow) -> str:
        cell = self._cell(row, self.columns.label)
        if cell and fits(cell, list[str | int | float | bool]):
            return ", ".join(sorted({str(each).strip() for each in cell}))  # several labels, in one order
        return self._text(row, self.columns.label)

    def texts_of(self, row: ProjectRow) -> tuple[str, ...]:
        return (*row.texts, row.answer)

    def check(self, rows: Sequence[ProjectRow]) -> None:
        """Implement ``TaskKind``; any texts can be learned."""

    def choose(
        self, base: BaseModel, *, train: Sequence[ProjectRow], rows: Sequence[ProjectRow]
    ) -> RunChoices:
        """Implement ``TaskKind``; an encoder can't write."""
        if base.checkpoint is not None and not base.can_generate:
            raise UserError(
                f"checkpoint={base.checkpoint} has no output layer to write texts of column {self.columns.label!r}",
                hint="take a T5, BART or GPT; an encoder such as BERT learns classes (task=classify) and numbers "
                "(task=regress)",
            )
        lengths, targets = (
            measure_lengths(texts, base.tokenizer, max_length=base.max_length)
            for texts in ([row.texts for row in rows], [(row.answer,) for row in rows])
        )
        is_decoder = base.layout == "decoder" and base.checkpoint is not None
        most = base.max_length or 2 * lengths.row_length + targets.row_length
        inputs_length = (
            min(lengths.row_length, most - targets.row_length) if is_decoder else lengths.row_length
        )
        if inputs_length < 1:
            raise UserError(
                f"answers of {targets.row_length} tokens leave no room for a text in the {most} positions of "
                f"{base.checkpoint}",
                hint="take a model with more positions",
            )
        sizes = text_sizes(len(train), base, is_t5=base.is_t5)
        template = " ".join(f"{{{column}}}" for column in self.columns.texts)
        values = {
            "layout": "decoder" if is_decoder else "encoder_decoder",
            "is_t5": base.is_t5,
            "inputs_length": inputs_length,
            "targets_length": targets.row_length,
            "joined_length": inputs_length + targets.row_length,
            "input_template": template + "\n" * is_decoder,
            "target_template": f"{{{self.columns.label}}}",
        }
        return RunChoices(
            lengths=lengths,
            sizes=sizes,
            epochs=sizes.epochs(len(train)),
            values={**values, **self.settings(rows)},
        )

    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        is_short = _mean_words(rows) <= _SHORT
        return {"metrics": ("sequence_accuracy", "token_error_rate") if is_short else ("rouge", "bleu")}

    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        yield f"label: column {self.columns.label!r}, texts to write, {_mean_words(rows):.1f} words on average"


def _mean_words(rows: Sequence[ProjectRow]) -> float:
    return sum(len(row.answer.split()) for row in rows) / len(rows)


class PlainTextPretraining(TaskKind):
    """Documents without labels."""

    template: ClassVar[str] = "pretrain_from_table.gin.jinja"

    def _answer(self, row: TableRow) -> str:
        del row
        return ""

    def check(self, rows: Sequence[ProjectRow]) -> None:
        """Implement ``TaskKind``; any text can be learned."""

    def choose(
        self, base: BaseModel, *, train: Sequence[ProjectRow], rows: Sequence[ProjectRow]
    ) -> RunChoices:
        """Implement ``TaskKind``: the objective is that of the model's family."""
        del rows
        documents = [row.texts for row in train]
        lengths = measure_lengths(documents, base.tokenizer, max_length=base.max_length)
        num_tokens = lengths.num_tokens * len(documents) // len(lengths.lengths)
        length = _ROW_LENGTH
        while length > _SHORTEST and num_tokens < 8 * length:
            length //= 2
        length = min(length, base.max_length or length)
        if num_tokens < length:
            raise UserError(
                f"{num_tokens} tokens of training are fewer than a row of {length}; give more text",
            )
        sizes = pretraining_sizes(num_tokens, length, base)
        layout = "encoder_decoder" if base.checkpoint is None else base.layout
        values = {
            "layout": layout,
            "is_t5": base.is_t5,
            "objective": _OBJECTIVES[layout],
            "column": self.columns.texts[0],
            "inputs_length": length,
            "targets_length": length if layout == "decoder" else max(length // 4, 16),
        }
        epochs = sizes.batch_size * sizes.train_steps * length / num_tokens
        lengths = replace(lengths, parts_of=length)
        return RunChoices(lengths=lengths, sizes=sizes, epochs=epochs, values=values)

    def settings(self, rows: Sequence[ProjectRow]) -> Mapping[str, object]:
        """Implement ``TaskKind``; ``choose`` gives all."""
        del rows
        return {}

    def lines(self, rows: Sequence[ProjectRow]) -> Iterator[str]:
        """Implement ``TaskKind``; there are no labels."""
        del rows
        yield from ()
