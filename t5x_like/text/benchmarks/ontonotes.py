"""OntoNotes 5 (Pradhan et al. 2012, 2013): names as tags, and coreference as text to text."""

from collections.abc import Mapping, Sequence

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.ontonotes_files import (
    NamesFile,
    coreference_row,
    hub_coreference,
    hub_names,
    read_coreference,
)
from t5x_like.text.benchmarks.record_files import Parse, RecordFiles, hub_layout
from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, FileLayout, Reader, files_in
from t5x_like.text.benchmarks.span_text import LabeledSpan, escaped, read_spans, write_spans
from t5x_like.text.benchmarks.tagging import tagging_benchmark
from t5x_like.text.metrics import coreference_f1
from t5x_like.text.postprocessing import texts_of
from t5x_like.text.templates import RowValues

_FOLDERS = ("conll-2012", "conll2012", "ontonotes")
# Releases name the splits differently; the shared task's own test documents come first.
_SHORT = {
    "train": ("train",),
    "validation": ("development", "dev"),
    "test": ("conll-2012-test", "test"),
}
_BELOW = "english/annotations/*/*/*/*gold_conll"
_FILES = {
    split: (
        f"{'dev' if split == 'validation' else split}.english.v4_gold_conll",
        *(f"{version}data/{short}/data/{_BELOW}" for short in names for version in ("v4/", "v12/", "")),
    )
    for split, names in _SHORT.items()
}
_HUB = ("conll2012_ontonotesv5/english_v4", "conll2012_ontonotesv5/english_v12")


def _ontonotes(read: Reader, parse: Parse, rows: Mapping[str, int], columns: Columns) -> BenchmarkSource:
    return BenchmarkSource(
        layouts=(
            FileLayout(files=files_in(_FOLDERS, _FILES), read=read),
            *(hub_layout(folder, tuple(rows), RecordFiles(parse=parse)) for folder in _HUB),
        ),
        rows=rows,
        home="https://catalog.ldc.upenn.edu/LDC2013T19 (splits: https://conll.cemantix.org/2012/data.html)",
        citation="Pradhan et al. 2012, https://aclanthology.org/W12-4501; 2013, https://aclanthology.org/W13-3516",
        license="the Linguistic Data Consortium's",
        columns=columns,
    )


# In the order of Hugging Face's ids.
_KINDS = (
    "PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "DATE", "TIME", "PERCENT", "MONEY", "QUANTITY",
    "ORDINAL", "CARDINAL", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE",
)  # fmt: skip
_NAMES = ("O", *(f"{side}-{kind}" for kind in _KINDS for side in "BI"))
ONTONOTES_NER = tagging_benchmark(
    "ontonotes5_ner",
    "OntoNotes 5: names of 18 kinds in English news, talk, telephone calls and web pages",
    column="ner",
    classes=_NAMES,
    source=_ontonotes(
        NamesFile(classes=_NAMES),
        hub_names,
        # The New Testament (pt) has no names annotated, and is left out (Pradhan et al. 2013, §3).
        {"train": 59_924, "validation": 8_528, "test": 8_262},
        {"tokens": "texts", "ner": "ints"},
    ),
    sentences=(
        ("Ann Lee left Oslo on Monday .", "B-PERSON I-PERSON O B-GPE O B-DATE O"),
        ("Norwegian fishermen paid 2 million crowns", "B-NORP O O B-MONEY I-MONEY I-MONEY"),
        ("Rain .", "O O"),
    ),
)


def word_coreference(row: RowValues) -> list[FormattedRow]:
    """Word a document, with a speaker where the speaker changes; the target brackets mentions with their cluster.

    ``coreference speaker: Ann text: I met Bo . He waved .`` becomes ``[ I | 1 ] met [ Bo | 2 ] . [ He | 2 ] waved .``.
    The template is ours. A mention with its cluster's number is the form of Zhang et al. 2023, §3, "Seq2seq is All You
    Need for Coreference Resolution", https://arxiv.org/abs/2310.13774, with TANL's brackets (``span_text``).

    Raises:
      ValueError: Mentions cross, or lie outside the document.
    """
    words: list[str] = list(row["tokens"])
    mentions = row["mentions"]
    numbers: dict[int, int] = {}
    spans = []
    for cluster, start, end in zip(mentions["cluster"], mentions["start"], mentions["end"], strict=True):
        cluster_number = numbers.setdefault(cluster, len(numbers) + 1)
        spans.append(LabeledSpan(start, end, str(cluster_number)))
    inputs, before = ["coreference"], None
    starts = list(row["sentence_starts"]) or [0]
    speakers = list(row["speakers"]) or [""]
    if len(starts) != len(speakers):
        raise ValueError(
            f"{len(starts)} sentences, but {len(speakers)} speakers; there must be one for each sentence"
        )
    for speaker, start, end in zip(speakers, starts, [*starts[1:], len(words)], strict=True):
        if speaker != before:
            inputs += [*(["speaker:", speaker] if speaker else []), "text:"]
        inputs += escaped(words[start:end])
        before = speaker
    return [{"inputs": " ".join(inputs), "targets": write_spans(words, spans), "tokens": words}]


def read_clusters(
    text: str, example: Mapping[str, object] | None = None, is_target: bool = False
) -> list[list[tuple[int, int]]]:
    """Return the clusters of a written or generated document: first words and words after the last.

    A mention counts once. Clusters of one mention are left out, as OntoNotes doesn't annotate them.

    Args:
      text: Document with marked mentions.
      example: Row of the document, whose ``tokens`` align the mentions; None to count words of the text.
      is_target: Unused; true and predicted texts are treated alike.
    """
    del is_target
    words = texts_of(example["tokens"]) if example is not None and "tokens" in example else ()
    clusters: dict[str, list[tuple[int, int]]] = {}
    seen: set[tuple[int, int]] = set()
    for start, end, label in read_spans(text, words):
        if (start, end) not in seen:
            seen.add((start, end))
            clusters.setdefault(label, []).append((start, end))
    return [sorted(cluster) for cluster in clusters.values() if len(cluster) > 1]


def _example(
    sentences: Sequence[str],
    speakers: Sequence[str],
    mentions: Sequence[Sequence[int]],
    inputs: str,
    targets: str,
) -> GoldenExample:
    row = coreference_row("bc/mill_0", [sentence.split() for sentence in sentences], speakers, mentions)
    return GoldenExample(row, ({"inputs": inputs, "targets": targets, "tokens": row["tokens"]},))


COREFERENCE = Benchmark(
    name="conll2012_coreference",
    title="CoNLL-2012: the mentions of a document that mean the same",
    source=_ontonotes(
        read_coreference,
        hub_coreference,
        {"train": 2_802, "validation": 343, "test": 348},
        {
            "id": "text",
            "tokens": "texts",
            "sentence_starts": "ints",
            "speakers": "texts",
            "mentions": {"cluster": "ints", "start": "ints", "end": "ints"},
        },
    ),
    word=word_coreference,
    question_columns=("tokens",),
    postprocess=read_clusters,
    metrics=(coreference_f1,),
    extras={"tokens": "texts"},
    examples=(
        _example(
            ("I met Bo .", "He waved .", "Who ?"),
            ("Ann", "Ann", "Tom"),
            ((7, 0, 1), (3, 2, 3), (3, 4, 5)),
            "coreference speaker: Ann text: I met Bo . He waved . speaker: Tom text: Who ?",
            "[ I | 1 ] met [ Bo | 2 ] . [ He | 2 ] waved . Who ?",
        ),
        _example(
            ("Ann sold her mill .", "It burned ."),
            ("-", "-"),
            ((0, 2, 4), (1, 0, 1), (1, 2, 3), (0, 5, 6)),
            "coreference text: Ann sold her mill . It burned .",
            "[ Ann | 1 ] sold [ [ her | 1 ] mill | 2 ] . [ It | 2 ] burned .",
        ),
        _example(("Rain [ sic ] .",), ("-",), (), "coreference text: Rain -LSB- sic -RSB- .", "Rain -LSB- sic -RSB- ."),
    ),
)  # fmt: skip

BENCHMARKS = (ONTONOTES_NER, COREFERENCE)
