"""Rows of our tasks as token ids, without TensorFlow: what is held in memory, and what a cache stores."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from t5x_like.text.tasks.chat import ChatTask, Conversation
from t5x_like.text.tasks.documents import Document
from t5x_like.text.tasks.pairs import PairsTask, Worded
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.sentences import tokenise_sentences
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer

TokenisedTask = PretrainingTask | PairsTask | ChatTask
SourceRow = Document | Worded | Conversation


def tokenizer_of(definition: TokenisedTask) -> Tokenizer:
    """The task's tokenizer.

    Raises:
      ValueError: it can't be opened, or lies in a bucket that can't be reached.
    """
    try:
        return open_tokenizer(definition.vocabulary, definition.num_sentinels)
    except Exception as error:
        # Each kind of bucket has errors of its own.
        if isinstance(error, ValueError) or "://" not in definition.vocabulary:
            raise
        raise ValueError(
            f"task {definition.name!r}: its vocabulary {definition.vocabulary} can't be reached "
            f"({str(error).strip().splitlines()[0]}); copy it here and give its path; for benchmarks that are only "
            "named, $T5X_LIKE_VOCABULARY is that path"
        ) from error


def with_sentences(definition: TokenisedTask) -> TokenisedTask:
    """The task, its documents tokenised sentence by sentence if its objective needs that."""
    if isinstance(definition, PretrainingTask) and definition.objective.spec.needs_sentences:
        return replace(definition, sentences=True)
    return definition


def feature_names(definition: TokenisedTask) -> tuple[str, ...]:
    """The arrays of each example: ``inputs`` and ``targets``, or a document's ``tokens`` and what is known of them.

    ``sentence_ends`` are where sentences end, ``spans`` [N, 2] are annotated, ``answers`` [2 N] are where a
    conversation's answers begin and end, all counted in tokens.
    """
    if isinstance(definition, ChatTask):
        return "tokens", "answers"
    if isinstance(definition, PairsTask):
        return "inputs", "targets"
    names = {
        "tokens": True,
        "sentence_ends": definition.sentences,
        "spans": definition.spans_column is not None,
    }
    return tuple(name for name, wanted in names.items() if wanted)


def tokenise_rows(definition: TokenisedTask, rows: Sequence[Any]) -> list[Mapping[str, Any]]:
    """One mapping of ``feature_names`` to ids for each row, without end of sequence, of any length.

    Raises:
      ValueError: a text that the vocabulary can't read.
    """
    tokenizer = tokenizer_of(definition)
    if isinstance(definition, PairsTask):
        inputs, targets = (
            tokenizer.encode_all([getattr(row, name) for row in rows]) for name in ("inputs", "targets")
        )
        return [{"inputs": left, "targets": right} for left, right in zip(inputs, targets, strict=True)]
    if isinstance(definition, ChatTask):
        return list(definition.tokenise(tokenizer, rows))
    if definition.spans_column is not None:
        from t5x_like.text.tasks.spans import tokenise_with_spans

        return [tokenise_with_spans(tokenizer, row, sentences=definition.sentences) for row in rows]
    if definition.sentences:
        return [document._asdict() for document in tokenise_sentences(tokenizer, rows)]
    return [{"tokens": ids} for ids in tokenizer.encode_all([row.text for row in rows])]
