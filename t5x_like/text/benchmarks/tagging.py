"""Tagging of words: names (CoNLL-2003), phrases (CoNLL-2000), parts of speech (Universal Dependencies)."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from t5x_like.text.benchmarks.benchmark import (
    Benchmark,
    FormattedRow,
    GoldenExample,
    MetricFunction,
    PromptTemplate,
)
from t5x_like.text.benchmarks.keyed_template import UNLABELED
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout
from t5x_like.text.benchmarks.source import BenchmarkSource, Download, FileLayout, files_in, plain_files
from t5x_like.text.benchmarks.tagged_files import TaggedFile, conll_line, conllu_line, hub_tags
from t5x_like.text.benchmarks.tfds_files import read_tfds
from t5x_like.text.heads import TokenClassification
from t5x_like.text.metrics import chunk_f1
from t5x_like.text.metrics.classification import Scores, require_pairs
from t5x_like.text.postprocessing import Example
from t5x_like.text.templates import RowValues

_OTHER = "O"


def word_tags(word: str, column: str, classes: Sequence[str]) -> PromptTemplate:
    """Return the template ``word tokens: Ann lives in Oslo`` with a tag for each word: ``B-PER O O B-LOC``.

    Args:
      word: First word of the inputs.
      column: Name of the row's column with class ids.
      classes: Tags in the order of class ids.
    """

    def formatted_rows(row: RowValues) -> list[FormattedRow]:
        tokens: list[str] = list(row["tokens"])
        tags: list[int] = list(row[column])
        if tags and len(tags) != len(tokens):
            raise ValueError(
                f"{len(tokens)} words, but {len(tags)} {column}; there must be one for each word"
            )
        wrong = [tag for tag in tags if not -1 <= tag < len(classes)]
        if wrong:
            raise ValueError(f"the tag {wrong[0]} is outside the set: 0 … {len(classes) - 1}")
        is_labeled = tags and min(tags) >= 0
        targets = " ".join([classes[tag] for tag in tags]) if is_labeled else UNLABELED
        return [{"inputs": f"{word} tokens: {' '.join(tokens)}", "targets": targets, "tokens": tokens}]

    return formatted_rows


def read_tags(
    text: str,
    example: Example | None = None,
    is_target: bool = False,
    *,
    classes: Sequence[str],
    invalid: str = _OTHER,
) -> list[str]:
    """Parse generated tags, one for each of the example's ``tokens``.

    Args:
      text: Tags separated by spaces.
      example: The row; without it, or for targets, all tags are returned.
      is_target: True for the target.
      classes: Valid tags.
      invalid: Tag for missing and invalid ones; superfluous tags are ignored.
    """
    tags = [tag if tag in classes else invalid for tag in text.split()]
    if is_target or example is None or "tokens" not in example:
        return tags
    count = len(example["tokens"])
    return [*tags, *[invalid] * count][:count]


def tag_accuracy(targets: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> Scores:
    """Compute the share of words with the right tag over all sentences, times 100.

    Args:
      targets: True tags of each sentence's words.
      predictions: Predicted tags of each sentence's words.

    Raises:
      ValueError: A sentence has different numbers of predicted and true tags.
    """
    require_pairs(targets, predictions)
    for index, (truth, guess) in enumerate(zip(targets, predictions, strict=True)):
        if len(truth) != len(guess):
            raise ValueError(f"sentence {index} has {len(truth)} tags but {len(guess)} predicted ones")
    pairs = zip(targets, predictions, strict=True)
    right = [left == other for truth, guess in pairs for left, other in zip(truth, guess, strict=True)]
    return {"accuracy": 100.0 * float(np.mean(right))}


def tagging_benchmark(
    name: str,
    title: str,
    *,
    column: str,
    classes: tuple[str, ...],
    source: BenchmarkSource,
    sentences: Sequence[tuple[str, str]],
    invalid: str = _OTHER,
    metric: MetricFunction = chunk_f1,
) -> Benchmark:
    """Define a tagging task in the template ``word tokens: …``, where ``word`` begins the name.

    Args:
      name: Name of the task.
      title: One line for people.
      column: Column of the rows with class ids.
      classes: Tags in the order of class ids.
      source: Rows.
      sentences: Invented sentences with their tags, for the golden examples.
      invalid: Tag for missing and invalid predictions.
      metric: Metric over lists of tags.
    """
    word = name.partition("_")[0]
    return Benchmark(
        name=name,
        title=title,
        source=source,
        word=word_tags(word, column, classes),
        question_columns=("tokens",),
        postprocess=partial(read_tags, classes=classes, invalid=invalid),
        metrics=(metric,),
        extras={"tokens": "texts"},
        head=TokenClassification(tokens="tokens", tags=column, classes=classes),
        examples=tuple(
            GoldenExample(
                {"tokens": text.split(), column: [classes.index(tag) for tag in tags.split()]},
                ({"inputs": f"{word} tokens: {text}", "targets": tags, "tokens": text.split()},),
            )
            for text, tags in sentences
        ),
    )


_NAMES = (_OTHER, "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC")
CONLL2003 = tagging_benchmark(
    "conll2003_ner",
    "CoNLL-2003: names of people, organizations, places and others in English news",
    column="ner",
    classes=_NAMES,
    source=BenchmarkSource(
        tfds="conll2003/conll2003:1.0.0",
        layouts=(
            FileLayout(
                files=files_in(
                    ("conll2003", "conll2003/original"),
                    {
                        "train": ("eng.train", "train.txt"),
                        "validation": ("eng.testa", "valid.txt", "dev.txt"),
                        "test": ("eng.testb", "test.txt"),
                    },
                ),
                read=TaggedFile(column="ner", classes=_NAMES, read_line=conll_line(4), begins_chunks=True),
            ),
            hub_layout("conll2003", ("train", "validation", "test"), RecordFiles(parse=hub_tags("ner_tags", "ner"))),
            FileLayout(
                name="TensorFlow Datasets",
                files={"validation": ("conll2003/conll2003/*/*-dev.tfrecord*",)},
                read=read_tfds,
            ),
        ),
        rows={"train": 14_041, "validation": 3_250, "test": 3_453},
        home="https://www.clips.uantwerpen.be/conll2003/ner (the texts are Reuters': https://trec.nist.gov/data/reuters)",
        citation="Tjong Kim Sang and De Meulder 2003, https://aclanthology.org/W03-0419",
        license="Reuters' corpus, on request",
        columns={"tokens": "texts", "ner": "ints"},
    ),
    sentences=(
        ("Ann Lee left Oslo .", "B-PER I-PER O B-LOC O"),
        ("Norwegian fishermen sued Acme Corp", "B-MISC O O B-ORG I-ORG"),
        ("Rain .", "O O"),
    ),
)  # fmt: skip

_PHRASES = ("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR", "UCP", "VP")
_CHUNKS = (_OTHER, *(f"{side}-{kind}" for kind in _PHRASES for side in "BI"))
_CHUNKING_SERVER = "https://www.clips.uantwerpen.be/conll2000/chunking"
CONLL2000 = tagging_benchmark(
    "conll2000_chunking",
    "CoNLL-2000: the phrases of sentences of the Wall Street Journal",
    column="chunks",
    classes=_CHUNKS,
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("conll2000",), {split: (f"{split}.txt", f"{split}.txt.gz") for split in ("train", "test")}
                ),
                read=TaggedFile(column="chunks", classes=_CHUNKS, read_line=conll_line(3)),
            ),
            hub_layout("conll2000", ("train", "test"), RecordFiles(parse=hub_tags("chunk_tags", "chunks"))),
        ),
        rows={"train": 8_936, "test": 2_012},
        downloads=plain_files(
            _CHUNKING_SERVER, "conll2000", {f"{split}.txt.gz": (None, None) for split in ("train", "test")}
        ),
        home=_CHUNKING_SERVER,
        citation="Tjong Kim Sang and Buchholz 2000, https://aclanthology.org/W00-0726",
        license="Penn Treebank's",
        columns={"tokens": "texts", "chunks": "ints"},
    ),
    sentences=(
        ("The old mill burned down .", "B-NP I-NP I-NP B-VP B-PRT O"),
        ("He says that it rains", "B-NP B-VP B-SBAR B-NP B-VP"),
        ("In March", "B-PP B-NP"),
    ),
)  # fmt: skip

PARTS_OF_SPEECH = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
    "SYM", "VERB", "X",
)  # fmt: skip
# In the order of Hugging Face's ids; "_" marks a multiword token.
_HUB_PARTS = (
    "NOUN", "PUNCT", "ADP", "NUM", "SYM", "SCONJ", "ADJ", "PART", "DET", "CCONJ", "PROPN", "PRON", "X", "_", "ADV",
    "INTJ", "VERB", "AUX",
)  # fmt: skip


def parts_of_speech(
    treebank: str,
    title: str,
    rows: Mapping[str, int],
    *,
    downloads: tuple[Download, ...] = (),
    home: str,
    license: str,
) -> Benchmark:
    """Define the task of a treebank's universal parts of speech.

    Files: ``ud/en_ewt-ud-train.conllu``, or in a folder of its own in ``ud``.

    Args:
      treebank: Name in the treebank's files: ``en_ewt``.
      title: One line for people.
      rows: Published number of sentences by split.
      downloads: Files to fetch.
      home: The treebank's web page.
      license: License of the treebank.
    """
    splits = {"train": "train", "validation": "dev", "test": "test"}
    read_hub = RecordFiles(parse=hub_tags("upos", "upos", _HUB_PARTS, PARTS_OF_SPEECH))
    return tagging_benchmark(
        f"ud_{treebank}_pos",
        title,
        column="upos",
        classes=PARTS_OF_SPEECH,
        source=BenchmarkSource(
            layouts=(
                FileLayout(
                    files=files_in(
                        ("ud", "ud/*", "UD_*", "."),
                        {split: f"{treebank}-ud-{short}.conllu" for split, short in splits.items()},
                    ),
                    read=TaggedFile(column="upos", classes=PARTS_OF_SPEECH, read_line=conllu_line),
                ),
                hub_layout(f"universal_dependencies/{treebank}", tuple(rows), read_hub),
            ),
            rows=rows,
            downloads=downloads,
            home=home,
            citation="Nivre et al. 2020, https://arxiv.org/abs/2004.10643",
            license=license,
            columns={"tokens": "texts", "upos": "ints"},
        ),
        sentences=(
            ("The old mill burned .", "DET ADJ NOUN VERB PUNCT"),
            ("We can n't go", "PRON AUX PART VERB"),
            ("Oslo", "PROPN"),
        ),
        invalid="X",
        metric=tag_accuracy,
    )


UD_EN_EWT = parts_of_speech(
    "en_ewt",
    "Universal Dependencies 2.10, English Web Treebank: parts of speech",
    {"train": 12_544, "validation": 2_001, "test": 2_077},
    downloads=plain_files(
        "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.10",
        "ud",
        {
            "en_ewt-ud-train.conllu": (
                13_686_411,
                "e6a3784727e7726d4f1c2e10ff22dcd0ddeb8869ad6f85b73bb1ff5ef798e944",
            ),
            "en_ewt-ud-dev.conllu": (
                1_738_438,
                "ef962ac05d844eaff46eeded125937129bfc0876d43963d66810cb73ffa8f5df",
            ),
            "en_ewt-ud-test.conllu": (
                1_738_935,
                "465100c5b6fb606725068dc70680d65cc047fbb4ae25195375618bc6353a4e58",
            ),
        },
    ),
    home="https://github.com/UniversalDependencies/UD_English-EWT",
    license="CC BY-SA 4.0",
)

BENCHMARKS = (CONLL2003, CONLL2000, UD_EN_EWT)
