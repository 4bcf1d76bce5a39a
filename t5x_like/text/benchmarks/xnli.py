"""XNLI (Conneau et al. 2018): entailment in 15 languages, in the templates of mT5 (Xue et al. 2021).

``xnli: premise: … hypothesis: …`` with the class's number as the target, as in
https://github.com/google-research/multilingual-t5. The training rows of each language are MultiNLI's, translated by
machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.keyed_template import UNLABELED, classification_benchmark, label_examples
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in
from t5x_like.text.heads import SequenceClassification
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues

LANGUAGES = {
    "ar": "Arabic", "bg": "Bulgarian", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fr": "French", "hi": "Hindi", "ru": "Russian", "sw": "Swahili", "th": "Thai", "tr": "Turkish",
    "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
_CLASSES = ("entailment", "neutral", "contradiction")
_NUMBERS = ("0", "1", "2")
_TRANSLATED = {"contradictory": "contradiction"}  # the training files' name


def _training_row(record: RowValues) -> Iterator[dict[str, object]]:
    label = record["label"]
    yield {
        "premise": record["premise"],
        "hypothesis": record["hypo"],
        "label": _TRANSLATED.get(label, label),
    }


@dataclass(frozen=True, kw_only=True)
class _LanguageTable:
    """Reader of the rows of one language from a table of all.

    Attributes:
      language: Code of the language.
    """

    language: str

    def __call__(self, file: str, split: str) -> Iterator[RawRow | BadRow]:
        """Read rows; see ``source.Reader``."""
        return RecordFiles(parse=self._rows, classes=_CLASSES, format="tsv")(file, split)

    def _rows(self, record: RowValues) -> Iterator[dict[str, object]]:
        if record["language"] == self.language:
            yield {
                "premise": record["sentence1"],
                "hypothesis": record["sentence2"],
                "label": record["gold_label"],
            }


def _xnli(language: str) -> Benchmark:
    hub = RecordFiles(
        parse=renamed(premise="premise", hypothesis="hypothesis", label="label"), classes=_CLASSES
    )
    splits = ("train", "validation", "test")
    return classification_benchmark(
        f"xnli_{language}",
        f"XNLI in {LANGUAGES[language]}: does a sentence entail another, contradict it, or neither?",
        source=BenchmarkSource(
            layouts=(
                FileLayout(
                    files=files_in(
                        ("xnli", ""),
                        {
                            "validation": ("XNLI-1.0/xnli.dev.tsv", "xnli.dev.tsv"),
                            "test": ("XNLI-1.0/xnli.test.tsv", "xnli.test.tsv"),
                        },
                    ),
                    read=_LanguageTable(language=language),
                ),
                FileLayout(
                    files=files_in(
                        ("xnli/XNLI-MT-1.0/multinli", "XNLI-MT-1.0/multinli", "xnli"),
                        {"train": f"multinli.train.{language}.tsv"},
                    ),
                    read=RecordFiles(parse=_training_row, classes=_CLASSES, format="tsv"),
                ),
                hub_layout(f"xnli/{language}", splits, hub),
            ),
            rows={"train": 392_702, "validation": 2_490, "test": 5_010},
            home="https://github.com/facebookresearch/XNLI (XNLI-1.0.zip and XNLI-MT-1.0.zip, unpacked in xnli/)",
            citation="Conneau et al. 2018, https://arxiv.org/abs/1809.05053; Xue et al. 2021, "
            "https://arxiv.org/abs/2010.11934",
            license="CC BY-NC 4.0",
            columns={"premise": "text", "hypothesis": "text", "label": "int"},
        ),
        word="xnli:",
        labels=_NUMBERS,
        columns={"premise": "premise", "hypothesis": "hypothesis"},
        has_index=False,
        head=SequenceClassification(texts=("{premise}", "{hypothesis}"), classes=_CLASSES),
        examples=label_examples(
            ("premise", "hypothesis"),
            (("Two row.", "Some row."), 0, "xnli: premise: Two row. hypothesis: Some row.", "0"),
            (("两人划船。", "没人划船。"), 2, "xnli: premise: 两人划船。 hypothesis: 没人划船。", "2"),
            (("Two row.", "They win."), -1, "xnli: premise: Two row. hypothesis: They win.", UNLABELED),
            has_index=False,
        ),
    )


BENCHMARKS = tuple(_xnli(language) for language in LANGUAGES)
