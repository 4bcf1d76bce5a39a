"""Story Cloze: choose the right ending of a story (Mostafazadeh et al. 2016)."""

from collections.abc import Iterator

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.choice_template import ChoiceTemplate, choice_example
from t5x_like.text.benchmarks.record_files import LABEL, RecordFiles, hub_layout
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in
from t5x_like.text.benchmarks.tfds_files import read_tfds
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.tasks.rows import BadRow, RawRow, convert
from t5x_like.text.templates import RowValues

_SENTENCES = tuple(f"InputSentence{index}" for index in range(1, 5))
_QUIZ = ("RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2")


def _story_row(record: RowValues) -> Iterator[dict[str, object]]:
    lowered = {name.lower(): value for name, value in record.items()}  # the hub has them in small letters
    try:
        context = " ".join(lowered[name.lower()] for name in _SENTENCES)
        endings = [lowered[name.lower()] for name in _QUIZ]
    except KeyError as error:
        raise ValueError(f"no column {error}; the columns are {', '.join(record)}") from None
    label = lowered.get("answerrightending", lowered.get("answer_right_ending"))
    yield {"context": context, "endings": endings, LABEL: None if label is None else str(label)}


_STORY_READ = RecordFiles(parse=_story_row, classes=("1", "2"))


def _read_prepared(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read TFDS's rows, whose labels are 1 and 2."""

    def numbered_from_zero(row: RawRow) -> RawRow:
        label = row.values["label"]
        return row._replace(values={**row.values, "label": label - 1}) if label > 0 else row

    return convert(read_tfds(file, split), numbered_from_zero)


_STORY_TEMPLATE = ChoiceTemplate(
    word="story_cloze", columns={"context": "context"}, choices="endings", count=2
)


def _story(label: int, targets: str) -> GoldenExample:
    row = {
        "context": "Al lost his key. He looked.",
        "endings": ["He found it.", "He ate it."],
        "label": label,
    }
    inputs = "story_cloze context: Al lost his key. He looked. choice1: He found it. choice2: He ate it."
    return choice_example(row, inputs, targets)


STORY_CLOZE = Benchmark(
    name="story_cloze",
    title="Story Cloze: which of two sentences ends a story? Train on validation, test on test (Radford et al. 2018)",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("story_cloze",),
                    {
                        split: (
                            f"cloze_test_{short}__spring2016*.csv",
                            f"cloze_test_spring2016*{short}*.csv",
                            f"{split}.csv",
                        )
                        for split, short in {"validation": "val", "test": "test"}.items()
                    },
                ),
                read=_STORY_READ,
            ),
            hub_layout("story_cloze/2016", ("validation", "test"), _STORY_READ),
            FileLayout(
                name="TensorFlow Datasets",
                files={
                    split: (f"story_cloze/2016/*/*-{split}.tfrecord*",) for split in ("validation", "test")
                },
                read=_read_prepared,
            ),
        ),
        rows={"validation": 1_871, "test": 1_871},
        home="https://cs.rochester.edu/nlp/rocstories (on request)",
        citation="Mostafazadeh et al. 2016, https://arxiv.org/abs/1604.01696",
        license="for research, on request",
        columns={"context": "text", "endings": "texts", "label": "int"},
    ),
    **_STORY_TEMPLATE.scored,
    question_columns=("context", "endings"),
    head=MultipleChoice(context="{context}", choices="endings"),
    examples=(_story(0, "choice1"), _story(1, "choice2"), _story(-1, "<unk>")),
)

BENCHMARKS = (STORY_CLOZE,)
