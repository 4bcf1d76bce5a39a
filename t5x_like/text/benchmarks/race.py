"""RACE: reading comprehension from English exams in China (Lai et al. 2017)."""

from collections.abc import Iterator, Mapping

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.choice_template import ChoiceTemplate, choice_example
from t5x_like.text.benchmarks.record_files import LABEL, RecordFiles, hub_layout
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.templates import RowValues

_OPTIONS = tuple(f"option{index}" for index in range(4))


def _race_rows(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert an official file's list of questions, or one question of Hugging Face's files."""
    several = "questions" in record
    several_questions = [record["questions"], record["options"], record["answers"]] if several else None
    questions = several_questions or [[record["question"]], [record["options"]], [record["answer"]]]
    if len({len(each) for each in questions}) > 1:
        counts = ", ".join(str(len(each)) for each in questions)
        raise ValueError(f"unequally many questions, options and answers: {counts}")
    for question, options, answer in zip(*questions, strict=True):
        if len(options) != len(_OPTIONS):
            raise ValueError(f"{len(options)} options to {question!r} where {len(_OPTIONS)} are expected")
        listed = dict(zip(_OPTIONS, options, strict=True))
        yield {"article": record["article"], "question": question, **listed, LABEL: answer}


_RACE_READ = RecordFiles(parse=_race_rows, classes=("A", "B", "C", "D"))
_RACE_TEMPLATE = ChoiceTemplate(
    word="race", columns={"question": "question", "article": "article"}, choices=_OPTIONS, count=4
)
_RACE_SPLITS = {"train": "train", "validation": "dev", "test": "test"}


def _race_example(label: int, targets: str) -> GoldenExample:
    row = {"article": "Tom has a red kite.", "question": "The kite is _ .", "label": label}
    row |= dict(zip(_OPTIONS, ("blue", "red", "new", "old"), strict=True))
    inputs = (
        "race question: The kite is _ . article: Tom has a red kite. choice1: blue choice2: red choice3: new "
        "choice4: old"
    )
    return choice_example(row, inputs, targets)


def _race(level: str, rows: Mapping[str, int]) -> Benchmark:
    below = "*" if level == "all" else level
    name = "race" if level == "all" else f"race_{level}"
    schools = {"all": "", "high": ", high schools", "middle": ", middle schools"}[level]
    return Benchmark(
        name=name,
        title=f"RACE{schools}: English exams' questions on a text",
        source=BenchmarkSource(
            layouts=(
                FileLayout(
                    files=files_in(
                        ("race", "RACE", "race/RACE"),
                        {split: f"{short}/{below}/*.txt" for split, short in _RACE_SPLITS.items()},
                    ),
                    read=_RACE_READ,
                ),
                hub_layout(f"race/{level}", tuple(rows), _RACE_READ),
            ),
            rows=rows,
            downloads=archive(
                "http://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz",
                "race/",
                25_443_609,
                "b2769cc9fdc5c546a693300eb9a966cec6870bd349fbc44ed5225f8ad33006e5",
            ),
            home="https://www.cs.cmu.edu/~glai1/data/race",
            citation="Lai et al. 2017, https://arxiv.org/abs/1704.04683",
            license="for research only",
            columns={
                "article": "text",
                "question": "text",
                **dict.fromkeys(_OPTIONS, "text"),
                "label": "int",
            },
        ),
        **_RACE_TEMPLATE.scored,
        head=MultipleChoice(
            context="{article}", choices=tuple(f"{{question}} {{{name}}}" for name in _OPTIONS)
        ),
        examples=(_race_example(1, "choice2"), _race_example(3, "choice4"), _race_example(-1, "<unk>")),
    )


RACE = _race("all", {"train": 87_866, "validation": 4_887, "test": 4_934})
RACE_HIGH = _race("high", {"train": 62_445, "validation": 3_451, "test": 3_498})
RACE_MIDDLE = _race("middle", {"train": 25_421, "validation": 1_436, "test": 1_436})

BENCHMARKS = (RACE, RACE_HIGH, RACE_MIDDLE)
