"""Extractive summarization: sentences of a document are scored, and the best form its summary."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from t5x_like.text.cells import is_single, parsed_cell
from t5x_like.text.heads.head_answers import Answer, Head, Probabilities, Written, rounded
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import EncoderInput, InputFormat, InputFraming
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import UNLABELED, as_text, column_of
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.generation_metrics import rouge_mean
from t5x_like.text.metrics.oracle_sentences import ngrams, oracle_sentences, words_of
from t5x_like.text.objectives.objective import Example, LabelLoss
from t5x_like.text.sentence_splitting import split_sentences
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_CLASSES = ("left_out", "in_summary")
_BLOCKED = 3  # words of a repeated n-gram


@dataclass(frozen=True, kw_only=True)
class ExtractiveSummarization(HeadFormat):
    """Sentences of a document for its summary (BertSumExt, Liu and Lapata 2019, https://arxiv.org/abs/1908.08345).

    A row is ``[CLS] first sentence [SEP] [CLS] second sentence [SEP] …``, with token types 0 and 1 in turn where the
    vocabulary has token types. Each ``[CLS]`` is classified: a sentence is in the summary or left out. Two classes are
    the paper's sigmoid, and their cross entropy its binary cross entropy. The layers between sentences that the paper
    adds on top of the encoder are not here. A linear layer reads the encoder's outputs.

    Labels are ``oracle_sentences``. Sentences beyond the model's length are never in a summary.

    Attributes:
      document: Column with a list of sentences, or a text, which is split at its full stops.
      summary: Column with the reference, of one or several lines, or a list of sentences. Unlabeled rows have none.
      num_sentences: Sentences of a summary.
      max_labels: Highest number of sentences that are labeled as in the summary.
      trigram_blocking: Leave out a sentence that has three words in a row in common with a better one.
    """

    document: str = "document"
    summary: str = "summary"
    num_sentences: int = 3
    max_labels: int = 3
    trigram_blocking: bool = True

    tags_tokens: ClassVar[bool] = True
    cut_unit: ClassVar[str] = "sentences"
    label_loss: ClassVar[LabelLoss | None] = None
    label_parameters: ClassVar[tuple[str, ...]] = ("summary",)
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = (rouge_mean,)
    why_left_out: ClassVar[str] = "have no summary"
    baseline_name: ClassVar[str] = "the first sentences"

    def __post_init__(self) -> None:
        for name in ("num_sentences", "max_labels"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1 sentence")

    @property
    def head(self) -> Head:
        """Token classification head, which is read at each sentence's first token."""
        return Head("token_classification", len(_CLASSES))

    @property
    def class_names(self) -> tuple[str, ...]:
        return _CLASSES

    @property
    def answer_names(self) -> tuple[str, ...]:
        return ()

    @property
    def input_columns(self) -> tuple[str, ...]:
        return (self.document,)

    def read(self, values: RowValues) -> LabeledRow:
        """Return a document's sentences, and which of them match its summary best.

        Raises:
          ValueError: There is no document, or it has no sentence.
        """
        sentences = _sentences(column_of(values, self.document), self.document)
        if not sentences:
            raise ValueError(
                f"column {self.document!r} has no sentence; give a text or a list of sentences, or leave the row out"
            )
        summary = _summary(values.get(self.summary), self.summary)
        if summary is None:
            tags = (UNLABELED,) * len(sentences)
        else:
            right = oracle_sentences(sentences, summary, max_sentences=self.max_labels)
            tags = tuple(int(index in right) for index in range(len(sentences)))
        return LabeledRow(
            texts=((),), words=sentences, tags=tags, candidates=() if summary is None else (summary,)
        )

    def is_labeled(self, row: LabeledRow) -> bool:
        return bool(row.candidates)

    def input_format(self, tokenizer: Tokenizer, limit: int, framing: InputFraming | None) -> InputFormat:
        """Return the ids before and after each sentence.

        Raises:
          ValueError: The vocabulary has no id to begin a text, or a framing is given.
        """
        if framing is not None:
            raise ValueError("sentences are between [CLS] and [SEP]; leave out the task's InputFraming")
        input_format = super().input_format(tokenizer, limit, None)
        if input_format.class_last or len(input_format.start) != 1:
            raise ValueError(
                f"{tokenizer} has no id such as [CLS] to begin each sentence; extractive summaries need the vocabulary "
                "of an encoder such as BERT or RoBERTa"
            )
        return input_format

    def encode(
        self,
        rows: Sequence[LabeledRow],
        first: int,
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        stride: int,
    ) -> Iterator[LabeledExample]:
        """Yield documents of as many whole sentences as fit; of a first sentence that is too long its beginning."""
        del stride
        encoded = iter(tokenizer.encode_all([sentence for row in rows for sentence in row.words]))
        before, after = list(input_format.start), list(input_format.end)
        for origin, row in enumerate(rows, start=first):
            tokens, starts, num_cut = list[int](), list[int](), 0
            for sentence in [list(next(encoded)) for _ in row.words]:
                room = input_format.limit - len(tokens) - len(before) - len(after)
                is_cut = num_cut > 0 or len(sentence) > room
                num_cut += is_cut
                if is_cut and tokens:
                    continue
                starts.append(len(tokens))
                tokens += [*before, *sentence[:room], *after]
            classes = np.full(len(tokens), UNLABELED, np.int32)
            classes[starts] = row.tags[: len(starts)]
            joined = EncoderInput(np.array(tokens, np.int32), len(tokens), num_cut)
            yield LabeledExample((joined,), origin, classes=classes, starts=np.array(starts, np.int32))

    def input_row(self, tokens: np.ndarray, second: int, input_format: InputFormat) -> Example:
        """Return a document as an example whose sentences have token types 0 and 1 in turn."""
        row = super().input_row(tokens, second, input_format)
        sentence = np.cumsum(tokens == input_format.start[0]) - 1
        return row._replace(token_types=(sentence % 2 * input_format.has_types).astype(np.int32))

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return the summary of each document: its best sentences in their order, one a line."""
        return [
            _joined(row, self._chosen(row, each, word_starts(index)))
            for index, (row, each) in enumerate(zip(rows, scores, strict=True))
        ]

    def _chosen(self, row: LabeledRow, scores: np.ndarray, starts: np.ndarray) -> list[int]:
        """Return the numbers of the sentences of a row's summary."""
        return best_sentences(
            row.words,
            np.argsort(-_logits(scores, starts), kind="stable").tolist(),
            num_sentences=self.num_sentences,
            trigram_blocking=self.trigram_blocking,
        )

    def probabilities(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
        labels: Sequence[str],
    ) -> list[Probabilities]:
        """Return that of each sentence to be in the summary, by its text; 0 for those beyond the model's length."""
        del labels
        probabilities = []
        for index, (row, each) in enumerate(zip(rows, scores, strict=True)):
            starts = word_starts(index)
            read = 1.0 / (1.0 + np.exp(-_logits(each, starts)))
            shares = rounded(np.pad(read, (0, len(row.words) - len(read))))
            predicted = [shares[place] for place in self._chosen(row, each, starts)]
            probabilities.append(Probabilities(predicted, dict(zip(row.words, shares, strict=True))))
        return probabilities

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        """ROUGE against the reference."""
        return {"rouge": rouge_mean}

    def baseline_answers(
        self, rows: Sequence[LabeledRow], training_rows: Iterable[LabeledRow]
    ) -> list[Answer]:
        """Return the first sentences of each document (Lead-3)."""
        del training_rows
        return [_joined(row, range(min(self.num_sentences, len(row.words)))) for row in rows]

    def details_of(self, rows: Sequence[LabeledRow], scores: Sequence[np.ndarray]) -> list[dict[str, Any]]:
        """Return the ``oracle`` of each labeled row: the sentences of its labels."""
        del scores
        return [
            {"oracle": [sentence for sentence, tag in zip(row.words, row.tags, strict=True) if tag == 1]}
            if self.is_labeled(row)
            else {}
            for row in rows
        ]

    def further_scores(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the ROUGE of the labels' own summaries, as ``oracle``."""
        labeled = [row for row in rows if "oracle" in row]
        if not labeled:
            return {}
        targets, oracles = (["\n".join(row[name]) for row in labeled] for name in ("target", "oracle"))
        return {"oracle": rouge_mean(targets, oracles)}

    def target(self, row: LabeledRow) -> str:
        """Return the reference."""
        return row.candidates[0]

    def written(self, answer: Answer, labels: Sequence[str]) -> Written:
        """Return the sentences of a summary."""
        del labels
        assert isinstance(answer, str)
        return answer.split("\n")


def best_sentences(
    sentences: Sequence[str], order: Sequence[int], *, num_sentences: int, trigram_blocking: bool
) -> list[int]:
    """Return the numbers of the sentences of a summary, in ascending order.

    >>> best_sentences(["A b c d.", "A b c e.", "F."], [0, 1, 2], num_sentences=2, trigram_blocking=True)
    [0, 2]

    Args:
      sentences: Sentences of the document.
      order: Numbers of the sentences, the best one first.
      num_sentences: Highest number of sentences to choose.
      trigram_blocking: Skip a sentence that shares three words in a row with a chosen one (Paulus et al. 2018).
    """
    chosen, seen = list[int](), set[tuple[str, ...]]()
    for index in order:
        if len(chosen) == num_sentences:
            break
        grams = ngrams(words_of(sentences[index]), _BLOCKED) if trigram_blocking else []
        if not seen.isdisjoint(grams):
            continue
        seen.update(grams)
        chosen.append(index)
    return sorted(chosen)


def _logits(scores: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the logit of each sentence that is read, float64 [S]."""
    wide = scores[starts].astype(np.float64)
    return wide[:, 1] - wide[:, 0]


def _joined(row: LabeledRow, indices: Iterable[int]) -> str:
    return "\n".join(row.words[index] for index in indices)


def _sentences(cell: Any, column: str) -> tuple[str, ...]:
    """Return the sentences of a cell: a list, a list in JSON, or a text."""
    listed = parsed_cell(as_text(cell)) if isinstance(cell, bytes | str) else cell
    if isinstance(cell, bytes | str) and not isinstance(listed, list):
        lines = as_text(cell).splitlines()
        listed = [sentence for line in lines for sentence in split_sentences(line)]
    if not isinstance(listed, Sequence | np.ndarray) or not all(map(is_single, listed)):
        raise ValueError(
            f"column {column!r} holds {json.dumps(cell, ensure_ascii=False, default=str):.60}; a list of sentences or "
            "a text is needed"
        )
    return tuple(sentence for each in listed if (sentence := " ".join(as_text(each).split())))


def _summary(cell: Any, column: str) -> str | None:
    """Return the reference with a sentence on each line; ``None`` for a row without one."""
    if cell is None:
        return None
    if isinstance(cell, bytes | str):
        lines = as_text(cell).splitlines()
        return "\n".join(" ".join(line.split()) for line in lines if line.strip()) or None
    return "\n".join(_sentences(cell, column)) or None
