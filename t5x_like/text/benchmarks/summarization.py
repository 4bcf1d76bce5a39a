"""Summarization of news: CNN/DailyMail and XSum in T5's templates (Raffel et al. 2020, appendix D), and after TL;DR."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from t5x_like.io.files import as_path
from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample, PromptTemplate
from t5x_like.text.benchmarks.record_files import RecordFiles, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in, plain_files
from t5x_like.text.benchmarks.translation import WMT15_ENFR, WMT_T2T_ENDE
from t5x_like.text.heads import ExtractiveSummarization
from t5x_like.text.metrics import rouge
from t5x_like.text.sentence_splitting import split_sentences
from t5x_like.text.tasks.rows import BadRow, RawRow, convert
from t5x_like.text.tasks.text_lines import Line, filled_lines, text_lines
from t5x_like.text.templates import RowValues

_HIGHLIGHT = "@highlight"
# Line endings; other lines get a full stop (See et al. 2017, https://github.com/abisee/cnn-dailymail).
_ENDS = (".", "!", "?", "...", "'", "`", '"', "’", "”", ")")
_FOLDERS = ("cnn/stories", "dailymail/stories", "cnn_stories", "dailymail_stories", "stories")


def _read_stories(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read CNN's and the Daily Mail's stories, split into article and highlights as in TensorFlow Datasets.

    ``cnn_dailymail/url_lists/all_train.txt`` lists the addresses of a split in the order of its rows. A story's file is
    named after the SHA-1 of its address: ``cnn_dailymail/cnn/stories/….story``. See ``source.Reader``.
    """
    del split
    above = os.path.dirname(file)
    roots = [above, os.path.dirname(above)]
    return convert(filled_lines(text_lines(file)), partial(_story, roots))


def _story(roots: list[str], line: Line) -> RawRow:
    url = line.text.strip()
    name = f"{hashlib.sha1(url.encode()).hexdigest()}.story"
    for path in (f"{root}/{folder}/{name}" for root in roots for folder in _FOLDERS):
        if as_path(path).exists():
            try:
                article, highlights = split_story(as_path(path).read_bytes().decode("utf-8"))
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}: invalid UTF-8 at byte {error.start}") from None
            return RawRow({"article": article, "highlights": highlights}, line.location)
    raise ValueError(
        f"no file {name} for {url} in {', '.join(f'{roots[-1]}/{folder}' for folder in _FOLDERS[:2])}; unpack "
        "cnn_stories.tgz and dailymail_stories.tgz there"
    )


def split_story(story: str) -> tuple[str, str]:
    """Return the article, its lines joined by spaces, and its highlights, one per line."""
    article, highlights, is_highlight = [], [], False
    for line in story.split("\n"):
        line = line.strip()
        if line.startswith(_HIGHLIGHT):
            is_highlight = True
        elif line:
            whole = line if line.endswith(_ENDS) or _HIGHLIGHT in line else f"{line}."
            (highlights if is_highlight else article).append(whole)
    return " ".join(article), "\n".join(highlights)


def _summarize(text: str, summary: str) -> PromptTemplate:
    """Return the template ``summarize: `` followed by the unchanged text; arguments are column names."""

    def word(row: RowValues) -> list[FormattedRow]:
        return [{"inputs": f"summarize: {row[text]}", "targets": row[summary]}]

    return word


def _lines(folder: str, splits: Mapping[str, str], *columns: str) -> FileLayout:
    """Return the layout of JSON lines with the task's columns."""
    return FileLayout(
        name="JSON lines",
        files=files_in(
            (folder,),
            {
                split: tuple(f"{name}.jsonl" for name in dict.fromkeys((split, short)))
                for split, short in splits.items()
            },
        ),
        read=RecordFiles(parse=renamed(**{column: column for column in columns})),
    )


_SPLITS = {"train": "train", "validation": "val", "test": "test"}
_CNN_SERVER = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists"

CNN_DAILYMAIL = Benchmark(
    name="cnn_dailymail_v002",
    title="CNN/DailyMail: the highlights of a news article",
    source=BenchmarkSource(
        tfds="cnn_dailymail:3.4.0",
        hugging_face="cnn_dailymail/3.0.0",
        layouts=(
            FileLayout(
                name="story files",
                files=files_in(
                    ("cnn_dailymail/url_lists", "cnn_dailymail"),
                    {split: (f"all_{short}.txt", f"{split}_urls.txt") for split, short in _SPLITS.items()},
                ),
                read=_read_stories,
            ),
            _lines("cnn_dailymail", _SPLITS, "article", "highlights"),
        ),
        rows={"train": 287_113, "validation": 13_368, "test": 11_490},
        downloads=plain_files(
            _CNN_SERVER,
            "cnn_dailymail/url_lists",
            {
                "all_train.txt": (
                    46_424_688,
                    "a5cee49f3a6c862c26ce29308236d2a99625ab6c86a43be22d5206b2790d8029",
                ),
                "all_val.txt": (
                    2_433_674,
                    "81887e982b045083409c6ee838aede8ff4b97291605bcfb21bffc456a16991db",
                ),
                "all_test.txt": (
                    2_109_547,
                    "c4f5efb5ec2126430a5c156efbd13d0e9c4cb490169e552c38b4a51981a009bd",
                ),
            },
        ),
        home="https://cs.nyu.edu/~kcho/DMQA (cnn_stories.tgz and dailymail_stories.tgz, unpacked in cnn_dailymail/)",
        citation="Hermann et al. 2015, https://arxiv.org/abs/1506.03340; See et al. 2017, https://arxiv.org/abs/1704.04368",
        license="Apache 2.0 (the articles are their publishers')",
        columns={"article": "text", "highlights": "text"},
    ),
    word=_summarize("article", "highlights"),
    question_columns=("article",),
    metrics=(rouge,),
    head=ExtractiveSummarization(document="article", summary="highlights"),
    examples=(
        GoldenExample(
            {
                "article": "A ferry ran aground. All were saved.",
                "highlights": "Ferry aground .\nNobody lost .",
            },
            (
                {
                    "inputs": "summarize: A ferry ran aground. All were saved.",
                    "targets": "Ferry aground .\nNobody lost .",
                },
            ),
        ),
        GoldenExample(
            {"article": " (Town) -- It snowed. ", "highlights": "Snow in town ."},
            ({"inputs": "summarize:  (Town) -- It snowed. ", "targets": "Snow in town ."},),
        ),
        GoldenExample(
            {"article": "One.\nTwo.", "highlights": ""}, ({"inputs": "summarize: One.\nTwo.", "targets": ""},)
        ),
    ),
)

XSUM = Benchmark(
    name="xsum_v001",
    title="XSum: a news article in one sentence",
    source=BenchmarkSource(
        tfds="xsum:1.1.0",
        hugging_face="xsum",
        layouts=(_lines("xsum", _SPLITS, "document", "summary"),),
        rows={"train": 204_045, "validation": 11_332, "test": 11_334},
        home="https://github.com/EdinburghNLP/XSum",
        citation="Narayan et al. 2018, https://arxiv.org/abs/1808.08745",
        license="MIT (the articles are the BBC's)",
        columns={"document": "text", "summary": "text"},
    ),
    word=_summarize("document", "summary"),
    question_columns=("document",),
    metrics=(rouge,),
    examples=(
        GoldenExample(
            {
                "document": "The bridge will close for a week.\nBuses will run.",
                "summary": "A bridge will close.",
            },
            (
                {
                    "inputs": "summarize: The bridge will close for a week.\nBuses will run.",
                    "targets": "A bridge will close.",
                },
            ),
        ),
        GoldenExample(
            {"document": "It cost £2m.", "summary": "It was dear. "},
            ({"inputs": "summarize: It cost £2m.", "targets": "It was dear. "},),
        ),
        GoldenExample({"document": "x", "summary": "y"}, ({"inputs": "summarize: x", "targets": "y"},)),
    ),
)


def tldr(text: str, summary: str) -> PromptTemplate:
    """Return GPT-2's template: the text, and ``TL;DR:`` on a line after it (Radford et al. 2019, §3.6).

    https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf

    Args:
      text: Column of the text.
      summary: Column of the summary.
    """

    def word(row: RowValues) -> list[FormattedRow]:
        return [{"inputs": f"{row[text]}\nTL;DR:", "targets": row[summary]}]

    return word


def first_sentences(
    text: str, example: Mapping[str, object] | None = None, is_target: bool = False, *, count: int
) -> str:
    """Return the first sentences of a continuation, one per line, as highlights are; a target as it is.

    Args:
      text: Target, or the text that a model wrote.
      example: Unused.
      is_target: True for the target.
      count: Number of sentences; GPT-2's authors take 3 of at most 100 tokens.
    """
    del example
    return text if is_target else "\n".join(each.strip() for each in split_sentences(text.strip())[:count])


def _tldr_of(benchmark: Benchmark, name: str, title: str, columns: tuple[str, str], count: int) -> Benchmark:
    word = tldr(*columns)
    return replace(
        benchmark,
        name=name,
        title=title,
        word=word,
        postprocess=partial(first_sentences, count=count),
        continues_inputs=True,
        head=None,
        examples=tuple(
            GoldenExample(
                each.row, ({"inputs": f"{each.row[columns[0]]}\nTL;DR:", "targets": each.row[columns[1]]},)
            )
            for each in benchmark.examples
        ),
    )


CNN_DAILYMAIL_TLDR = _tldr_of(
    CNN_DAILYMAIL,
    "cnn_dailymail_tldr",
    "CNN/DailyMail as GPT-2 summarizes: a continuation of the article and TL;DR",
    ("article", "highlights"),
    3,
)
# A summary of XSum is one sentence; GPT-2's authors didn't measure on it.
XSUM_TLDR = _tldr_of(
    XSUM,
    "xsum_tldr",
    "XSum as GPT-2 summarizes: a continuation of the article and TL;DR",
    ("document", "summary"),
    1,
)

BENCHMARKS = (CNN_DAILYMAIL, XSUM, CNN_DAILYMAIL_TLDR, XSUM_TLDR)
# T5's mixtures of its large tasks (§3.5.3), with equal rates or rates proportional to their rows.
_LARGE = (WMT_T2T_ENDE, WMT15_ENFR, CNN_DAILYMAIL)
MIXTURES = {
    "large_translation_equal": {each.name: 1.0 for each in _LARGE[:2]},
    "large_supervised_equal": {each.name: 1.0 for each in _LARGE},
    "large_supervised_proportional": {each.name: float(each.num_training_examples) for each in _LARGE},
}
