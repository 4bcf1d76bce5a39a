"""Words left out of stories: LAMBADA's last words, and the Children's Book Test's blanks."""

from collections.abc import Mapping

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.cloze_files import hub_book_rows, read_book_test, read_passages
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.heads import MultipleChoice
from t5x_like.text.metrics import accuracy
from t5x_like.text.templates import RowValues

_MARKS = ".,;:!?\"'`“”‘’()[]"


def last_word(row: RowValues) -> list[FormattedRow]:
    """Word LAMBADA: the inputs are the passage without its last word, so that any language model can continue it.

    Raises:
      ValueError: The passage is a single word.
    """
    before, space, word = row["passage"].strip().rpartition(" ")
    if not space:
        raise ValueError(f"a passage of one word has none before its last: {row['passage']!r}")
    return [{"inputs": before, "targets": word}]


def first_word(text: str, example: Mapping[str, object] | None = None, is_target: bool = False) -> str:
    """Return the first word of a continuation, without punctuation around it.

    Args:
      text: Continuation that the model generated, or the true one.
      example: Unused; postprocessing functions take the row.
      is_target: Unused; true and predicted texts are treated alike.
    """
    del example, is_target
    words = text.split()
    return words[0].strip(_MARKS) or words[0] if words else ""


LAMBADA = Benchmark(
    name="lambada",
    title="LAMBADA: the last word of a passage, which needs more context than its last sentence",
    source=BenchmarkSource(
        tfds="lambada:1.0.0",
        layouts=(
            FileLayout(
                files=files_in(
                    ("lambada", "lambada-dataset"),
                    {
                        "validation": "lambada_development_plain_text.txt",
                        "test": "lambada_test_plain_text.txt",
                    },
                ),
                read=read_passages,
            ),
            FileLayout(
                name="OpenAI's lines of JSON",
                files={"test": ("lambada/lambada_test.jsonl", "lambada/lambada_test_en.jsonl")},
                read=RecordFiles(parse=renamed(passage="text")),
            ),
            hub_layout("lambada_openai", ("test",), RecordFiles(parse=renamed(passage="text"))),
            hub_layout(
                "lambada/plain_text", ("validation", "test"), RecordFiles(parse=renamed(passage="text"))
            ),
        ),
        rows={"validation": 4_869, "test": 5_153},
        downloads=archive(
            "https://zenodo.org/record/2630551/files/lambada-dataset.tar.gz",
            "lambada/",
            334_527_694,
            "8fbe499096ddbdcbbd0cac406861b5026fb451d15b8fe04e0e4f3d082f2ad5d7",
        ),
        home="https://zenodo.org/record/2630551",
        citation="Paperno et al. 2016, https://arxiv.org/abs/1606.06031",
        license="CC BY 4.0",
        columns={"passage": "text"},
    ),
    word=last_word,
    continues_inputs=True,
    postprocess=first_word,
    metrics=(accuracy,),
    examples=(
        GoldenExample(
            {"passage": "she tuned the harp , then played the harp"},
            ({"inputs": "she tuned the harp , then played the", "targets": "harp"},),
        ),
        GoldenExample(
            {"passage": "“Is it Bo?” “It's Bo. ”"}, ({"inputs": "“Is it Bo?” “It's Bo.", "targets": "”"},)
        ),
        GoldenExample({"passage": " two words "}, ({"inputs": "two", "targets": "words"},)),
    ),
)


def book_question(row: RowValues) -> list[FormattedRow]:
    """Word a question as ``cbt question: … options: a, b … passage: …``; the target is the missing word."""
    options = ", ".join(row["options"])
    inputs = f"cbt question: {row['question']} options: {options} passage: {row['passage']}"
    return [{"inputs": inputs, "targets": row["answer"]}]


def _whole_answer(text: str, example: Mapping[str, object] | None = None, is_target: bool = False) -> str:
    """Return the answer without white space around it."""
    del example, is_target
    return text.strip()


_KINDS = {
    "NE": ("names", 108_719),
    "CN": ("common nouns", 120_769),
    "V": ("verbs", 105_825),
    "P": ("prepositions", 334_030),
}


def _book_example(answer: str, label: int) -> GoldenExample:
    row = {
        "passage": "Tom fed the goat . Ann watched .",
        "question": "The goat liked XXXXX .",
        "options": ["Tom", "Ann", "hay"],
        "answer": answer,
        "label": label,
    }
    inputs = "cbt question: The goat liked XXXXX . options: Tom, Ann, hay passage: Tom fed the goat . Ann watched ."
    return GoldenExample(row, ({"inputs": inputs, "targets": answer},))


def _book_test(kind: str) -> Benchmark:
    called, num_training = _KINDS[kind]
    names = {"train": "train", "validation": "valid_2000ex", "test": "test_2500ex"}
    files = {split: f"cbtest_{kind}_{name}.txt" for split, name in names.items()}
    return Benchmark(
        name=f"cbt_{kind.lower()}",
        title=f"Children's Book Test, {called}: the word left out of a story's 21st sentence",
        source=BenchmarkSource(
            layouts=(
                FileLayout(
                    files=files_in(("cbt/CBTest/data", "CBTest/data", "cbt"), files), read=read_book_test
                ),
                hub_layout(f"cbt/{kind}", tuple(files), RecordFiles(parse=hub_book_rows)),
            ),
            rows={"train": num_training, "validation": 2_000, "test": 2_500},
            downloads=archive("https://www.thespermwhale.com/jaseweston/babi/CBTest.tgz", "cbt/"),
            home="https://research.facebook.com/downloads/babi",
            citation="Hill et al. 2016, https://arxiv.org/abs/1511.02301",
            license="GFDL",
            columns={
                "passage": "text",
                "question": "text",
                "options": "texts",
                "answer": "text",
                "label": "int",
            },
        ),
        word=book_question,
        question_columns=("passage", "question", "options"),
        postprocess=_whole_answer,
        metrics=(accuracy,),
        head=MultipleChoice(context="{passage} {question}", choices="options"),
        examples=(_book_example("Tom", 0), _book_example("Ann", 1), _book_example("hay", 2)),
    )


CBT_NE, CBT_CN, CBT_V, CBT_P = (_book_test(kind) for kind in _KINDS)

BENCHMARKS = (LAMBADA, CBT_NE, CBT_CN, CBT_V, CBT_P)
