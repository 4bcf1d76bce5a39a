"""Perplexity of language models: WikiText, the Penn Treebank, enwik8, text8, One Billion Word, and any text."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.io.files import as_path
from t5x_like.io.text_encoding import text_of
from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample, MetricFunction
from t5x_like.text.benchmarks.record_files import RecordFiles, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.metrics.classification import Scores, require_pairs
from t5x_like.text.metrics.perplexity import TextCost, perplexities
from t5x_like.text.tasks.rows import BadRow, EmptyFile, RawRow, convert
from t5x_like.text.tasks.text_lines import filled_lines, text_lines
from t5x_like.text.templates import RowValues

_TITLE = re.compile(r"(?m)^ = (?!=)[^\n]*[^=\s] = *\n")


def whole_text(row: RowValues) -> list[FormattedRow]:
    """Return the text as the target, with empty inputs."""
    return [{"inputs": "", "targets": row["text"]}]


def text_perplexities(targets: Sequence[str], scores: Sequence[TextCost]) -> Scores:
    """Compute perplexities over all texts together.

    Args:
      targets: Texts.
      scores: Cost of each text.

    Raises:
      ValueError: Different numbers of texts and costs, or no scored token.
    """
    require_pairs(targets, scores)
    return perplexities(sum(scores, TextCost(0.0, 0, 0, 0)))


def sentence_perplexities(targets: Sequence[str], scores: Sequence[TextCost]) -> Scores:
    """Compute perplexities over sentences, whose ends count as words (Chelba et al. 2013).

    The end of a sentence is predicted as the line break after it.

    Args:
      targets: Sentences.
      scores: Cost of each sentence in nats and its number of scored tokens.

    Raises:
      ValueError: Different numbers of texts and costs, or no scored token.
    """
    require_pairs(targets, scores)
    return text_perplexities(targets, [cost._replace(words=cost.words + 1) for cost in scores])


# Metrics of costs, not of answers.
PERPLEXITY_METRICS = (text_perplexities, sentence_perplexities)


def _read_sentences(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a sentence with its line break from each line that isn't blank. See ``source.Reader``."""
    del split
    lines = filled_lines(text_lines(file))
    return convert(lines, lambda line: RawRow({"text": f"{line.text.strip()}\n"}, line.location))


@dataclass(frozen=True, kw_only=True)
class ByteSplits:
    """Reader of one file whose last twentieth is the test split, and whose second-last is the validation split.

    A character whose bytes two splits share belongs to the first, so a split may have 3 bytes more or less.

    Attributes:
      name: Name of the file; others hold the text of one split.
      num_bytes: Size of the file.
      alphabet: All bytes that it may have; any if empty.
    """

    name: str
    num_bytes: int = 100_000_000
    alphabet: bytes = b""

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read the split as one text; see ``source.Reader``.

        Raises:
          ValueError: The file has another size.
        """
        start, end = 0, as_path(file).stat().length
        if os.path.basename(file) == self.name:
            if end != self.num_bytes:
                raise ValueError(
                    f"{file} has {end:,} bytes, where {self.num_bytes:,} are expected; is it cut off?"
                )
            part = end // 20
            middle, last = end - 2 * part, end - part
            start, end = {"train": (0, middle), "validation": (middle, last), "test": (last, end)}[split]
        with as_path(file).open("rb") as stream:
            stream.seek(start)
            content = stream.read(end - start + 3)
        first, stop = (_character_edge(content, position) for position in (0, end - start))
        content = content[first if start else 0 : stop]
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            yield BadRow(f"invalid UTF-8 at byte {start + first + error.start:,}", file)
            return
        other = content.translate(None, self.alphabet)[:1] if self.alphabet else b""
        if other:
            yield BadRow(
                f"{other!r} is none of the characters that {self.name} has: {self.alphabet.decode()!r}", file
            )
        elif text:
            yield RawRow({"text": text}, f"{file}:byte {start + first}")
        else:
            yield EmptyFile("the file is empty", file)


def _character_edge(content: bytes, position: int) -> int:
    """Return the first place from ``position`` on at which no character is continued."""
    while content[position : position + 1] and 0x80 <= content[position] < 0xC0:
        position += 1
    return position


def _read_document(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a whole file as one text. See ``source.Reader``."""
    del split
    text = _text_of(file)
    if text.strip():
        yield RawRow({"text": text}, f"{file}:1")
    else:
        yield EmptyFile("the file is empty", file)


def _read_articles(file: str, split: str) -> Iterator[RawRow | BadRow]:
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
    read: Any = _read_document,
    rows: Mapping[str, int] | None = None,
    metric: MetricFunction = text_perplexities,
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
      metric: One of ``PERPLEXITY_METRICS``.
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
        metrics=(metric,),
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
        read=_read_articles,
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

_MAHONEY = "http://mattmahoney.net/dc"


def _first_bytes(name: str, title: str, alphabet: bytes = b"") -> Benchmark:
    """Define a task of the first 10⁸ bytes of the English Wikipedia, of which 90, 5 and 5 millions are the splits."""
    return text_benchmark(
        name,
        title,
        {
            split: (f"{name}/{name}", f"{name}/{short}.txt.raw")
            for split, short in (("train", "train"), ("validation", "valid"), ("test", "test"))
        },
        read=ByteSplits(name=name, alphabet=alphabet),
        rows={"train": 1, "validation": 1, "test": 1},
        home=f"{_MAHONEY}/textdata.html ({name}.zip, unpacked in {name}/)",
        citation=f"Mahoney 2011, {_MAHONEY}/text.html; the splits: Al-Rfou et al. 2019, "
        "https://arxiv.org/abs/1808.04444",
        license="CC BY-SA 3.0",
    )


ENWIK8 = _first_bytes("enwik8", "enwik8, bytes of Wikipedia's XML: bits per character are bits_per_byte")
TEXT8 = _first_bytes(
    "text8",
    "text8, Wikipedia in 27 letters: bits per character are bits_per_byte",
    b"abcdefghijklmnopqrstuvwxyz ",
)
_BILLION = "1-billion-word-language-modeling-benchmark-r13output"
_HELD_OUT = "heldout-monolingual.tokenized.shuffled/news.en.heldout-"
LM1B = text_benchmark(
    "lm1b",
    "One Billion Word: perplexity on shuffled sentences of news",
    files_in(
        (f"lm1b/{_BILLION}", _BILLION, "lm1b"),
        {
            "train": "training-monolingual.tokenized.shuffled/news.en-000??-of-00100",
            "validation": f"{_HELD_OUT}00001-of-00050",
            "test": f"{_HELD_OUT}00000-of-00050",
        },
    ),
    read=_read_sentences,
    rows={
        "train": 30_301_028,
        "validation": 0,
        "test": 6_075,
    },  # the number of validation rows isn't published
    metric=sentence_perplexities,
    home="https://www.statmt.org/lm-benchmark",
    citation="Chelba et al. 2013, https://arxiv.org/abs/1312.3005",
    license="none is stated; cite the paper",
)

BENCHMARKS = (WIKITEXT103, WIKITEXT103_RAW, WIKITEXT2, WIKITEXT2_RAW, PENN_TREEBANK, ENWIK8, TEXT8, LM1B)
