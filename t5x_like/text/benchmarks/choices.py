"""Sentence completion and pronoun resolution with several choices: SWAG, HellaSwag and Winogrande."""

from collections.abc import Iterator

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.choice_template import ChoiceTemplate, choice_example
from t5x_like.text.benchmarks.record_files import LABEL, RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in, plain_files
from t5x_like.text.benchmarks.tfds_files import read_tfds
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.templates import RowValues

_NUMBERS = ("0", "1", "2", "3")

_ENDINGS = tuple(f"ending{index}" for index in range(4))
_SWAG_SERVER = "https://raw.githubusercontent.com/rowanz/swagaf/master/data"
_SWAG_COLUMNS = ("sent1", "sent2", *_ENDINGS)
_SWAG_READ = RecordFiles(
    parse=renamed(label="label", **{name: name for name in _SWAG_COLUMNS}), classes=_NUMBERS
)
_SWAG_FILES = {"train": "train.csv", "validation": "val.csv", "test": "test.csv"}
_SWAG_TEMPLATE = ChoiceTemplate(
    word="swag", columns={"sentence": "sent1", "start": "sent2"}, choices=_ENDINGS, count=4
)


def _swag(label: int, targets: str) -> GoldenExample:
    row = {"sent1": "A man lifts a lid.", "sent2": "He", "label": label}
    row |= dict(zip(_ENDINGS, ("looks in.", "swims.", "sings.", "melts."), strict=True))
    inputs = (
        "swag sentence: A man lifts a lid. start: He choice1: looks in. choice2: swims. choice3: sings. "
        "choice4: melts."
    )
    return choice_example(row, inputs, targets)


SWAG = Benchmark(
    name="swag",
    title="SWAG: what happens next in a video?",
    source=BenchmarkSource(
        layouts=(
            FileLayout(files=files_in(("swag", "swag/data", "swagaf/data"), _SWAG_FILES), read=_SWAG_READ),
            hub_layout("swag/regular", tuple(_SWAG_FILES), _SWAG_READ),
        ),
        rows={"train": 73_546, "validation": 20_006, "test": 20_005},
        downloads=plain_files(_SWAG_SERVER, "swag", dict.fromkeys(_SWAG_FILES.values(), (None, None))),
        home="https://rowanzellers.com/swag",
        citation="Zellers et al. 2018, https://arxiv.org/abs/1808.05326",
        license="MIT",
        columns={**dict.fromkeys(_SWAG_COLUMNS, "text"), "label": "int"},
    ),
    **_SWAG_TEMPLATE.scored,
    head=MultipleChoice(context="{sent1}", choices=tuple(f"{{sent2}} {{{ending}}}" for ending in _ENDINGS)),
    examples=(_swag(0, "choice1"), _swag(3, "choice4"), _swag(-1, "<unk>")),
)


def _hellaswag_row(record: RowValues) -> Iterator[dict[str, object]]:
    context = record["ctx"] if "ctx" in record else record["context"]
    yield {
        "activity_label": record["activity_label"],
        "context": context,
        "endings": list(record["endings"]),
        LABEL: record.get(LABEL),
    }


_HELLASWAG_SERVER = "https://raw.githubusercontent.com/rowanz/hellaswag/master/data"
_HELLASWAG_READ = RecordFiles(parse=_hellaswag_row, classes=_NUMBERS)
_HELLASWAG_FILES = {
    "train": "hellaswag_train.jsonl",
    "validation": "hellaswag_val.jsonl",
    "test": "hellaswag_test.jsonl",
}
_HELLASWAG_TEMPLATE = ChoiceTemplate(
    word="hellaswag",
    columns={"activity": "activity_label", "context": "context"},
    choices="endings",
    count=4,
)


def _hellaswag(label: int, targets: str) -> GoldenExample:
    row = {
        "activity_label": "Baking",
        "context": "A woman kneads dough. she",
        "endings": ["shapes it.", "drinks it.", "reads it.", "sails it."],
        "label": label,
    }
    inputs = (
        "hellaswag activity: Baking context: A woman kneads dough. she choice1: shapes it. choice2: drinks it. "
        "choice3: reads it. choice4: sails it."
    )
    return choice_example(row, inputs, targets)


HELLASWAG = Benchmark(
    name="hellaswag",
    title="HellaSwag: how does a text continue?",
    source=BenchmarkSource(
        tfds="hellaswag:1.1.0",
        layouts=(
            FileLayout(
                files=files_in(("hellaswag", "hellaswag/data"), _HELLASWAG_FILES), read=_HELLASWAG_READ
            ),
            hub_layout("hellaswag", tuple(_HELLASWAG_FILES), _HELLASWAG_READ),
        ),
        rows={"train": 39_905, "validation": 10_042, "test": 10_003},
        downloads=plain_files(
            _HELLASWAG_SERVER,
            "hellaswag",
            {
                "hellaswag_train.jsonl": (
                    47_496_131,
                    "dae5e69249868cb9fe4e23ff925c60b66169564cfb7072d793cd7356a2b69f8d",
                ),
                "hellaswag_val.jsonl": (
                    12_246_618,
                    "0aa3b88843990f3f10a97b9575c94d7b71fb2205240ba04ae4884d9e9c992588",
                ),
                "hellaswag_test.jsonl": (
                    11_752_147,
                    "da082b00543e422b8d25394614d102944586986def4de5cd1bd36d86bcb76261",
                ),
            },
        ),
        home="https://rowanzellers.com/hellaswag",
        citation="Zellers et al. 2019, https://arxiv.org/abs/1905.07830",
        license="MIT",
        columns={"activity_label": "text", "context": "text", "endings": "texts", "label": "int"},
    ),
    **_HELLASWAG_TEMPLATE.scored,
    question_columns=("activity_label", "context", "endings"),
    head=MultipleChoice(context="{context}", choices="endings"),
    examples=(_hellaswag(0, "choice1"), _hellaswag(2, "choice3"), _hellaswag(-1, "<unk>")),
)

_WINOGRANDE_COLUMNS = ("sentence", "option1", "option2")
_WINOGRANDE_READ = RecordFiles(
    parse=renamed(label="answer", **{name: name for name in _WINOGRANDE_COLUMNS}), classes=("1", "2")
)
_WINOGRANDE_TEMPLATE = ChoiceTemplate(
    word="winogrande", columns={"sentence": "sentence"}, choices=("option1", "option2"), count=2
)
_WINOGRANDE_FOLDERS = ("winogrande", "winogrande/winogrande_1.1", "winogrande_1.1")
_WINOGRANDE_FILES = {"train": "train_xl.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}


def _winogrande(label: int, targets: str) -> GoldenExample:
    row = {"sentence": "Ann taught Sue as _ knew more.", "option1": "Ann", "option2": "Sue", "label": label}
    return choice_example(
        row, "winogrande sentence: Ann taught Sue as _ knew more. choice1: Ann choice2: Sue", targets
    )


WINOGRANDE = Benchmark(
    name="winogrande",
    title="Winogrande (trained on XL): which of two fills the blank?",
    source=BenchmarkSource(
        tfds="winogrande:1.2.0",
        layouts=(
            FileLayout(files=files_in(_WINOGRANDE_FOLDERS, _WINOGRANDE_FILES), read=_WINOGRANDE_READ),
            hub_layout("winogrande/winogrande_xl", tuple(_WINOGRANDE_FILES), _WINOGRANDE_READ),
            FileLayout(
                name="TensorFlow Datasets",
                files={"train": ("winogrande/*/*-train_xl.tfrecord*",)},
                read=read_tfds,
            ),
        ),
        rows={"train": 40_398, "validation": 1_267, "test": 1_767},
        downloads=archive(
            "https://storage.googleapis.com/ai2-mosaic/public/winogrande/winogrande_1.1.zip",
            "winogrande/",
            3_395_492,
            "3619ab104d8be2977b25c90ff420cb42d491707dcc75362a1e5d22bc082b7318",
        ),
        home="https://winogrande.allenai.org",
        citation="Sakaguchi et al. 2019, https://arxiv.org/abs/1907.10641",
        license="CC BY",
        columns={**dict.fromkeys(_WINOGRANDE_COLUMNS, "text"), "label": "int"},
    ),
    **_WINOGRANDE_TEMPLATE.scored,
    head=MultipleChoice(context="{sentence}", choices=("{option1}", "{option2}")),
    examples=(_winogrande(0, "choice1"), _winogrande(1, "choice2"), _winogrande(-1, "<unk>")),
)

BENCHMARKS = (SWAG, HELLASWAG, WINOGRANDE)
