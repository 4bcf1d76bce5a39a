"""Perplexity of language models per token, word and byte: WikiText, the Penn Treebank, and any text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t5x_like.io.text_encoding import text_of
from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample, WordedRow
from t5x_like.text.benchmarks.record_files import RecordFiles, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.metrics.classification import Scores, require_pairs
from t5x_like.text.metrics.perplexity import TextCost, cost_of, perplexities
from t5x_like.text.tasks.rows import BadRow, RawRow, RowValues

_TITLE = re.compile(r"(?m)^ = (?!=)[^\n]*[^=\s] = *\n")


def whole_text(row: RowValues) -> list[WordedRow]:
    """Return the text as the target, with empty inputs."""
    return [{"inputs": "", "targets": row["text"]}]


def text_perplexities(targets: Sequence[str], scores: Sequence[tuple[float, int] | TextCost]) -> Scores:
    """Compute perplexities over all texts together.

    Args:
      targets: Texts.
      scores: Cost of each text: nats and number of scored tokens, or a ``TextCost``.

    Raises:
      ValueError: Different numbers of texts and costs, or no scored token.
    """
    require_pairs(targets, scores)
    total = TextCost(0.0, 0, 0, 0)
    for text, cost in zip(targets, scores, strict=True):
        total += cost if isinstance(cost, TextCost) else cost_of(text, *cost)
    return perplexities(total)


def read_document(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a whole file as one text. See ``source.Reader``."""
    del split
    text = _text_of(file)
    if text.strip():
        yield RawRow({"text": text}, f"{file}:1")
    else:
        yield BadRow("the file is empty", file)


def read_articles(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read WikiText's articles, each starting at its title `` = Title = ``."""
    del split
    text = _text_of(file)
    starts = [title.start() for title in _TITLE.finditer(text)]
    if not starts:
        yield BadRow("no title of an article, such as ' = Title = ', is in it; is it WikiText?", file)
        return
    line = 1
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if start == starts[0]:
            line += text.count("\n", 0, start)
        yield RawRow({"text": text[start:end]}, f"{file}:{line}")
        line += text.count("\n", start, end)


def _text_of(file: str) -> str:
    return text_of(file).replace("\r\n", "\n")


def text_benchmark(
    name: str,
    title: str,
    files: Mapping[str, tuple[str, ...]],
    *,
    read: Any = read_document,
    rows: Mapping[str, int] | None = None,
    **source: Any,
) -> Benchmark:
    """Define a task that measures perplexity.

    >>> text_benchmark("my_letters", "Letters", {"test": ("letters/*.txt",)}).splits
    ('test',)

    Args:
      name: Name of the task.
      title: One line for people.
      files: Patterns of each split's files, relative to the data folder.
      read: Reader; by default a file is one text. ``read_lines`` reads JSON lines with ``text``.
      rows: Published number of rows by split.
      **source: Further fields of ``BenchmarkSource``.
    """
    return Benchmark(
        name=name,
        title=title,
        source=BenchmarkSource(
            layouts=(FileLayout(files=files, read=read, name="texts"),),
            rows=rows or dict.fromkeys(files, 0),
            columns={"text": "text"},
            **source,
        ),
        word=whole_text,
        metrics=(text_perplexities,),
        examples=tuple(
            GoldenExample({"text": text}, ({"inputs": "", "targets": text},))
            for text in ("A mill burned down.", " = Mill = \n\n It burned . \n", "東京。")
        ),
    )


read_lines = RecordFiles(parse=renamed(text="text"))

_WIKITEXT = {"train": "train", "validation": "valid", "test": "test"}
_WIKITEXT_SERVER = "https://s3.amazonaws.com/research.metamind.io/wikitext"


def _wikitext(size: str, num_articles: int, *, raw: bool) -> Benchmark:
    folder, ending = (f"wikitext-{size}-raw", "raw") if raw else (f"wikitext-{size}", "tokens")
    return text_benchmark(
        f"wikitext{size}{'_raw' if raw else ''}",
        f"WikiText-{size}{', with all of its words' if raw else ', rare words <unk>'}: perplexity on Wikipedia's best",
        files_in(
            (folder, f"wikitext/{folder}"),
            {split: f"wiki.{short}.{ending}" for split, short in _WIKITEXT.items()},
        ),
        read=read_articles,
        rows={"train": num_articles, "validation": 60, "test": 60},
        downloads=archive(f"{_WIKITEXT_SERVER}/{folder}-v1.zip", ""),
        home="https://blog.salesforceairesearch.com/the-wikitext-long-term-dependency-language-modeling-dataset",
        citation="Merity et al. 2017, https://arxiv.org/abs/1609.07843",
        license="CC BY-SA 3.0",
    )


WIKITEXT103, WIKITEXT2 = _wikitext("103", 28_475, raw=False), _wikitext("2", 600, raw=False)
WIKITEXT103_RAW, WIKITEXT2_RAW = _wikitext("103", 28_475, raw=True), _wikitext("2", 600, raw=True)

PENN_TREEBANK = text_benchmark(
    "penn_treebank",
    "Penn Treebank, 10,000 words, as Mikolov prepared it: perplexity on the Wall Street Journal",
    files_in(
        ("ptb", "simple-examples/data", "penn"),
        {split: f"ptb.{short}.txt" for split, short in _WIKITEXT.items()},
    ),
    rows={"train": 1, "validation": 1, "test": 1},
    home="https://catalog.ldc.upenn.edu/LDC99T42",
    citation="Mikolov et al. 2010, https://www.isca-archive.org/interspeech_2010/mikolov10_interspeech.html",
    license="the Linguistic Data Consortium's",
)

BENCHMARKS = (WIKITEXT103, WIKITEXT103_RAW, WIKITEXT2, WIKITEXT2_RAW, PENN_TREEBANK)
