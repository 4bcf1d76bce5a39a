"""Tasks of texts whose vectors are compared, by the names of their columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from t5x_like.configuration_names import config_function
from t5x_like.text.heads.text_tuple import TextTuple
from t5x_like.text.tasks.text_task import TextTask


@config_function
def text_tuples(
    *,
    name: str,
    vocabulary: str,
    files: Mapping[str, Any],
    texts: Sequence[str] = ("anchor", "positive"),
    weight: str | None = None,
    score: str | None = None,
    keeps_pooler: bool = False,
    **options: Any,
) -> TextTask:
    """Return the task of a table whose columns are texts to compare, for ``Contrastive``.

    >>> text_tuples(name="nli", vocabulary="bytes", files={"train": "nli.csv"}, texts=("query", "positive", "negative"))
    TextTask(name='nli', ...)

    Args:
      name: Name of the task.
      vocabulary: Path of the tokenizer, or "bytes".
      files: File or files of each split, as for ``TextTask``: TSV, CSV, JSONL, parquet or Arrow. Splits with ``None``
        are left out.
      texts: Columns, or templates of columns: a single one; two that belong together; and then those that don't.
      weight: Column with the weight of each row, the stream ``weight``.
      score: Column with the number that each row's similarity is to be, the stream ``score``.
      keeps_pooler: The model keeps its pooler (see ``TextTuple``).
      **options: Further fields of ``TextTask``, such as ``columns``, ``row_filter`` or ``on_bad_row``.

    Raises:
      ValueError: ``texts`` is no list of columns.
    """
    if isinstance(texts, str) or not texts:
        raise ValueError(f"texts is {texts!r}; give the names of columns, such as ('anchor', 'positive')")
    templates = tuple(text if "{" in text else f"{{{text}}}" for text in texts)
    streams = {"weight": weight, "score": score}
    return TextTask(
        name=name,
        vocabulary=vocabulary,
        files={split: paths for split, paths in files.items() if paths is not None},
        input_template=templates[0],
        target_template=templates[min(1, len(templates) - 1)],
        head=TextTuple(texts=templates, keeps_pooler=keeps_pooler),
        streams={stream: column for stream, column in streams.items() if column is not None},
        **options,
    )
