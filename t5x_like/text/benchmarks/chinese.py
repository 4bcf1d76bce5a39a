"""Chinese: LCQMC, ChnSentiCorp, MSRA's names, DRCD and CMRC 2018.

The first three are among those that ERNIE 1.0 reports (Sun et al. 2019, https://arxiv.org/abs/1904.09223), with XNLI in
Chinese. The others are among those of whole-word BERT (Cui et al. 2021, https://arxiv.org/abs/1906.08101). Templates
are in T5's style, and ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED, classification_benchmark, label_examples
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, FileLayout, files_in
from t5x_like.text.benchmarks.squad_json import read_squad
from t5x_like.text.benchmarks.tagged_files import TaggedFile, hub_tags
from t5x_like.text.benchmarks.tagging import tagging_benchmark
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.metrics import cmrc
from t5x_like.text.postprocessing import qa
from t5x_like.text.templates import RowValues

_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
# PaddlePaddle/ERNIE's copy of the tasks: tables with a header, in which this sign separates characters.
_ERNIE = {split: f"{short}.tsv" for split, short in _SPLITS.items()}
_SEPARATOR = "\x02"

_LCQMC_LABELS = ("not_duplicate", "duplicate")  # as in GLUE's QQP
LCQMC = classification_benchmark(
    "lcqmc",
    "LCQMC: do two Chinese questions ask the same?",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("lcqmc", "LCQMC"), {split: f"{short}.txt" for split, short in _SPLITS.items()}
                ),
                read=RecordFiles(
                    parse=renamed(sentence1="sentence1", sentence2="sentence2", label="label"),
                    classes=_LCQMC_LABELS,
                    columns=("sentence1", "sentence2", "label"),
                    format="tsv",
                ),
            ),
            FileLayout(
                name="tables of PaddlePaddle/ERNIE",
                files=files_in(("lcqmc",), _ERNIE),
                read=RecordFiles(
                    parse=renamed(sentence1="text_a", sentence2="text_b", label="label"),
                    classes=_LCQMC_LABELS,
                ),
            ),
            hub_layout(
                "lcqmc",
                tuple(_SPLITS),
                RecordFiles(
                    parse=renamed(sentence1="sentence1", sentence2="sentence2", label="label"),
                    classes=_LCQMC_LABELS,
                ),
            ),
        ),
        rows={"train": 238_766, "validation": 8_802, "test": 12_500},
        home="http://icrc.hitsz.edu.cn/info/1037/1146.htm",
        citation="Liu et al. 2018, https://aclanthology.org/C18-1166",
        license="on request, for research",
        columns={"sentence1": "text", "sentence2": "text", "label": "int"},
    ),
    word="lcqmc",
    labels=_LCQMC_LABELS,
    has_index=False,
    examples=label_examples(
        ("sentence1", "sentence2"),
        (
            ("磨坊什么时候烧的？", "磨坊是哪年烧的？"),
            1,
            "lcqmc sentence1: 磨坊什么时候烧的？ sentence2: 磨坊是哪年烧的？",
            "duplicate",
        ),
        (
            ("谁建了它？", "谁卖了它？"),
            0,
            "lcqmc sentence1: 谁建了它？ sentence2: 谁卖了它？",
            "not_duplicate",
        ),
        (("去哪", "来吗"), -1, "lcqmc sentence1: 去哪 sentence2: 来吗", UNLABELED),
        has_index=False,
    ),
)

_SENTIMENTS = ("negative", "positive")
CHN_SENTI_CORP = classification_benchmark(
    "chnsenticorp",
    "ChnSentiCorp: does a Chinese review of a hotel, book or computer praise or blame?",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                name="tables of PaddlePaddle/ERNIE",
                files=files_in(("chnsenticorp", "ChnSentiCorp"), _ERNIE),
                read=RecordFiles(parse=renamed(text="text_a", label="label"), classes=_SENTIMENTS),
            ),
            hub_layout(
                "chnsenticorp",
                tuple(_SPLITS),
                RecordFiles(parse=renamed(text="text", label="label"), classes=_SENTIMENTS),
            ),
        ),
        rows={"train": 9_600, "validation": 1_200, "test": 1_200},
        home="https://github.com/PaddlePaddle/ERNIE (its task_data)",
        citation="Tan and Zhang 2008, https://doi.org/10.1016/j.eswa.2007.05.028",
        license="none is stated; cite the paper",
        columns={"text": "text", "label": "int"},
    ),
    word="chnsenticorp",
    labels=_SENTIMENTS,
    columns={"review": "text"},
    has_index=False,
    examples=label_examples(
        ("text",),
        (("房间很干净。",), 1, "chnsenticorp review: 房间很干净。", "positive"),
        (("再也不来了！",), 0, "chnsenticorp review: 再也不来了！", "negative"),
        (("一本书",), -1, "chnsenticorp review: 一本书", UNLABELED),
        has_index=False,
    ),
)

# In the order of Hugging Face's ids.
_NAMES = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")


def _character_line(line: str) -> tuple[str, str]:
    """Return a character, which may be a wide space, and its tag.

    Raises:
      ValueError: The line has another number of columns.
    """
    cells = line.split("\t") if "\t" in line else line.split(" ")
    if len(cells) != 2:
        raise ValueError(f"{len(cells)} columns, where a character and its tag are expected: {line!r}")
    return cells[0], cells[1]


def _table_names(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert a row of a table of PaddlePaddle/ERNIE."""
    tags: list[str] = record["label"].split(_SEPARATOR)
    unknown = [tag for tag in tags if tag not in _NAMES]
    if unknown:
        raise ValueError(f"the tag {unknown[0]!r} is outside the set: {', '.join(_NAMES)}")
    yield from hub_tags("tags", "ner")(
        {"tokens": record["text_a"].split(_SEPARATOR), "tags": [_NAMES.index(tag) for tag in tags]}
    )


MSRA_NER = tagging_benchmark(
    "msra_ner",
    "MSRA: names of people, organizations and places in Chinese news, character by character",
    column="ner",
    classes=_NAMES,
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                name="tables of PaddlePaddle/ERNIE",
                files=files_in(("msra_ner", "msra"), _ERNIE),
                read=RecordFiles(parse=_table_names),
            ),
            FileLayout(
                name="columns",
                files=files_in(
                    ("msra_ner", "msra", "MSRA"),
                    {split: f"msra_{split}_bio.txt" for split in ("train", "test")},
                ),
                read=TaggedFile(column="ner", classes=_NAMES, read_line=_character_line),
            ),
            hub_layout("msra_ner", ("train", "test"), RecordFiles(parse=hub_tags("ner_tags", "ner"))),
        ),
        # PaddlePaddle/ERNIE's division of the training sentences; other copies have no validation split.
        rows={"train": 20_864, "validation": 2_318, "test": 4_636},
        home="https://github.com/PaddlePaddle/ERNIE (its task_data)",
        citation="Levow 2006, https://aclanthology.org/W06-0115",
        license="Microsoft Research Asia's",
        columns={"tokens": "texts", "ner": "ints"},
    ),
    sentences=(
        ("李 安 在 北 京 。", "B-PER I-PER O B-LOC I-LOC O"),
        ("清 华 大 学", "B-ORG I-ORG I-ORG I-ORG"),
        ("下 雨", "O O"),
    ),
)

_READING: Columns = {
    "id": "text",
    "context": "text",
    "question": "text",
    "answers": {"text": "texts", "answer_start": "ints"},
}


def word_reading(row: RowValues) -> list[FormattedRow]:
    """Word a question and its paragraph as T5 words SQuAD, with the texts unchanged; the target is the first answer."""
    answers: list[str] = list(row["answers"]["text"])
    return [
        {
            "inputs": f"question: {row['question']} context: {row['context']}",
            "targets": answers[0] if answers else UNLABELED,
            "id": row["id"],
            "answers": answers,
        }
    ]


_CONTEXT = "磨坊建于1702年，三月被烧毁。"


def _question_example(question: str, answers: Mapping[str, int]) -> GoldenExample:
    labels = {"text": list(answers), "answer_start": list(answers.values())}
    row = {"id": "m1", "context": _CONTEXT, "question": question, "answers": labels}
    formatted = {"inputs": f"question: {question} context: {_CONTEXT}", "id": "m1", "answers": list(answers)}
    return GoldenExample(row, ({**formatted, "targets": next(iter(answers), UNLABELED)},))


def _reading(
    name: str,
    title: str,
    folders: Sequence[str],
    files: Mapping[str, str | tuple[str, ...]],
    rows: Mapping[str, int],
    **source: Any,
) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        source=BenchmarkSource(
            hugging_face=name,
            layouts=(FileLayout(files=files_in(folders, files), read=read_squad),),
            rows=rows,
            columns=_READING,
            **source,
        ),
        word=word_reading,
        question_columns=("question", "context"),
        postprocess=qa,
        metrics=(cmrc,),
        extras={"id": "text", "answers": "texts"},
        head=QuestionAnswering(metric="cmrc"),
        examples=(
            _question_example("磨坊何时建成？", {"1702年": 4, "1702": 4}),
            _question_example("何时烧毁？", {"三月": 10}),
            _question_example("谁建的？", {}),
        ),
    )


CMRC2018 = _reading(
    "cmrc2018",
    "CMRC 2018: questions with answers in a paragraph of the Chinese Wikipedia",
    ("cmrc2018", "cmrc2018/squad-style-data", "squad-style-data"),
    {"train": "cmrc2018_train.json", "validation": "cmrc2018_dev.json"},
    {"train": 10_142, "validation": 3_219},
    home="https://github.com/ymcui/cmrc2018 (its squad-style-data)",
    citation="Cui et al. 2019, https://arxiv.org/abs/1810.07366",
    license="CC BY-SA 4.0",
)
DRCD = _reading(
    "drcd",
    "DRCD: questions with answers in a paragraph of Wikipedia, in traditional Chinese",
    ("drcd", "DRCD"),
    {
        split: (f"DRCD_{name}.json", f"drcd_{name}.json")
        for split, name in (("train", "training"), ("validation", "dev"), ("test", "test"))
    },
    {"train": 26_936, "validation": 3_524, "test": 3_493},
    home="https://github.com/DRCKnowledgeTeam/DRCD",
    citation="Shao et al. 2018, https://arxiv.org/abs/1806.00920",
    license="CC BY-SA 3.0",
)

BENCHMARKS = (LCQMC, CHN_SENTI_CORP, MSRA_NER, CMRC2018, DRCD)
