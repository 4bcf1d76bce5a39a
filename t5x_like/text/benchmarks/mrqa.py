"""MRQA 2019: twelve sets of questions in one form (Fisch et al. 2019, https://arxiv.org/abs/1910.09753).

A file is JSON lines: a header, then a context with its questions each. Six sets are to train on; the others test how an
answer is found in texts of other kinds. SpanBERT reports five of the six (Joshi et al. 2020, section 4.1).
"""

from collections.abc import Iterator

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.record_files import RecordFiles
from t5x_like.text.benchmarks.source import BenchmarkSource, Download, FileLayout, files_in
from t5x_like.text.benchmarks.squad import word_answers
from t5x_like.text.heads import QuestionAnswering
from t5x_like.text.metrics import squad
from t5x_like.text.postprocessing import qa
from t5x_like.text.templates import RowValues

_THEIRS = "that of the data set; see the page of the shared task"
_SERVER = "https://s3.us-east-2.amazonaws.com/mrqa/release/v2"


def _rows(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert a context to a row for each question; the header has none.

    Right answers are the texts that were found in the context, each with its first place. The list ``answers``, with
    which the official script compares, may have further spellings that aren't in the context.
    """
    if "header" in record:
        return
    context = record["context"]
    for question in record["qas"]:
        spans = [answer["char_spans"][0] for answer in question["detected_answers"]]
        texts = [context[first : last + 1] for first, last in spans]  # the last character is included
        if not all(texts):
            raise ValueError(f"question {question['qid']}: an answer is not inside its context")
        answers = {"text": texts, "answer_start": [first for first, _ in spans]}
        yield {
            "id": question["qid"],
            "context": context,
            "question": question["question"],
            "answers": answers,
        }


_CONTEXT = "[TLE] The mill [PAR] It burned in March 1702."


def _example(question: str, padded: str, **answers: int) -> GoldenExample:
    context = " [ TLE ] The mill [ PAR ] It burned in March 1702 . "
    labels = {"text": list(answers), "answer_start": list(answers.values())}
    formatted = {"inputs": f"question: {padded}context: {context.lstrip()}", "targets": next(iter(answers))}
    return GoldenExample(
        {"id": "q1", "context": _CONTEXT, "question": question, "answers": labels},
        ({**formatted, "id": "q1", "context": context, "question": padded, "answers": list(answers)},),
    )


def _mrqa(
    name: str, title: str, file: str, *, train: int | None = None, validation: int, license: str = _THEIRS
) -> Benchmark:
    rows = {**({} if train is None else {"train": train}), "validation": validation}
    folders = {split: "dev" if split == "validation" else split for split in rows}
    return Benchmark(
        name=f"mrqa_{name}",
        title=f"MRQA 2019: {title}",
        source=BenchmarkSource(
            layouts=(
                FileLayout(
                    files=files_in(
                        ("mrqa", "MRQA"),
                        {
                            split: tuple(f"{folder}/{file}.jsonl{packed}" for packed in (".gz", ""))
                            for split, folder in folders.items()
                        },
                    ),
                    read=RecordFiles(parse=_rows),
                ),
            ),
            rows=rows,
            downloads=tuple(
                Download(
                    url=f"{_SERVER}/{folder}/{file}.jsonl.gz", unpack={"": f"mrqa/{folder}/{file}.jsonl.gz"}
                )
                for folder in folders.values()
            ),
            home="https://github.com/mrqa/MRQA-Shared-Task-2019",
            citation="Fisch et al. 2019, https://arxiv.org/abs/1910.09753",
            license=license,
            columns={
                "id": "text",
                "context": "text",
                "question": "text",
                "answers": {"text": "texts", "answer_start": "ints"},
            },
        ),
        word=word_answers,
        question_columns=("question", "context"),
        postprocess=qa,
        metrics=(squad,),
        extras={"id": "text", "context": "text", "question": "text", "answers": "texts"},
        head=QuestionAnswering(),
        examples=(
            _example("When did it burn?", "When did it burn ? ", March=34, **{"March 1702": 34}),
            _example("What burned?", "What burned ? ", **{"The mill": 6}),
            _example("Which year?", "Which year ? ", **{"1702": 40}),
        ),
    )


BENCHMARKS = (
    _mrqa(
        "squad", "SQuAD, about Wikipedia", "SQuAD", train=86_588, validation=10_507, license="CC BY-SA 4.0"
    ),
    _mrqa("newsqa", "NewsQA, about news of CNN", "NewsQA", train=74_160, validation=4_212),
    _mrqa("trivia_qa", "TriviaQA, about web pages", "TriviaQA-web", train=61_688, validation=7_785),
    _mrqa("search_qa", "SearchQA, about results of a search", "SearchQA", train=117_384, validation=16_980),
    _mrqa(
        "hotpot_qa",
        "HotpotQA, about two paragraphs",
        "HotpotQA",
        train=72_928,
        validation=5_904,
        license="CC BY-SA 4.0",
    ),
    _mrqa(
        "natural_questions",
        "Natural Questions with short answers",
        "NaturalQuestionsShort",
        train=104_071,
        validation=12_836,
        license="CC BY-SA 3.0",
    ),
    _mrqa("bioasq", "BioASQ, about articles of biology", "BioASQ", validation=1_504),
    _mrqa("drop", "DROP, with answers in the text", "DROP", validation=1_503, license="CC BY-SA 4.0"),
    _mrqa("duorc", "DuoRC, about plots of films", "DuoRC.ParaphraseRC", validation=1_501, license="MIT"),
    _mrqa("race", "RACE, with answers in the text", "RACE", validation=674, license="for research"),
    _mrqa("relation_extraction", "relations as questions", "RelationExtraction", validation=2_948),
    _mrqa(
        "textbook_qa",
        "TextbookQA, about lessons of science",
        "TextbookQA",
        validation=1_503,
        license="CC BY-NC 3.0",
    ),
)
