"""decaNLP: tasks as a question about a context (McCann et al. 2018, https://arxiv.org/abs/1806.08730).

Questions about translations and summaries are those of figure 1. Those about sentiment and inference are those of the
authors' code, https://github.com/salesforce/decaNLP, from which the figure differs ("Is this sentence positive or
negative?"). The paper's models read question and context apart; here they are one text, as T5 words SQuAD.

Translation is WMT's, not IWSLT's, and sentiment has GLUE's phrases as training rows. The five tasks that have data of
their own are in ``decathlon_texts``, ``decathlon_dialogues`` and ``decathlon_queries``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.decathlon_dialogues import WOZ
from t5x_like.text.benchmarks.decathlon_queries import WIKI_SQL
from t5x_like.text.benchmarks.decathlon_template import QuestionContext, question_template
from t5x_like.text.benchmarks.decathlon_texts import PRONOUNS, RELATIONS, SEMANTIC_ROLES
from t5x_like.text.benchmarks.glue import SST2
from t5x_like.text.benchmarks.glue_form import MNLI_LABELS
from t5x_like.text.benchmarks.glue_inference import MNLI, MNLI_MATCHED, MNLI_MISMATCHED
from t5x_like.text.benchmarks.keyed_template import UNLABELED, label_word
from t5x_like.text.benchmarks.squad import ALL_ANSWERS
from t5x_like.text.benchmarks.summarization import CNN_DAILYMAIL
from t5x_like.text.benchmarks.translation import WMT14_ENDE
from t5x_like.text.postprocessing import qa, string_label_to_class_id
from t5x_like.text.templates import RowValues


def _label(row: RowValues, labels: tuple[str, ...]) -> tuple[str, ...]:
    word = label_word(row, labels)
    return () if word == UNLABELED else (word,)


def ask_squad(row: RowValues) -> QuestionContext:
    """Return SQuAD's own question."""
    return QuestionContext(row["question"], row["context"], tuple(row["answers"]["text"]))


def ask_translation(row: RowValues) -> QuestionContext:
    """Ask for a translation from English to German."""
    return QuestionContext("What is the translation from English to German?", row["en"], (row["de"],))


def ask_summary(row: RowValues) -> QuestionContext:
    """Ask for a summary."""
    return QuestionContext("What is the summary?", row["article"], (row["highlights"],))


def ask_inference(row: RowValues) -> QuestionContext:
    """Ask about a hypothesis."""
    question = f'Hypothesis: "{row["hypothesis"]}" -- entailment, neutral, or contradiction?'
    return QuestionContext(question, f'Premise: "{row["premise"]}"', _label(row, MNLI_LABELS))


def ask_sentiment(row: RowValues) -> QuestionContext:
    """Ask about the sentiment of a review."""
    return QuestionContext("Is this review negative or positive?", row["sentence"], _label(row, SST2.labels))


def _decathlon(
    benchmark: Benchmark,
    name: str,
    title: str,
    ask: Callable[[RowValues], QuestionContext],
    columns: tuple[str, ...],
    *examples: tuple[RowValues, str, str, str],
    extras: tuple[str, ...] = (),
    training_task: str = "",
) -> Benchmark:
    """Define a task of the rows of another.

    Args:
      benchmark: The other.
      name: Name of the task after ``decanlp_``.
      title: One line for people.
      ask: Converts a row.
      columns: Columns of the row that question and context have.
      *examples: Rows with their questions, contexts and answers.
      extras: Columns to keep; see ``asked``.
      training_task: Task whose training split belongs to this one.
    """
    labels = benchmark.labels
    if labels:
        postprocess = partial(string_label_to_class_id, label_classes=labels)
    else:
        postprocess = qa if "answers" in extras else benchmark.postprocess
    golden = []
    for row, question, context, answer in examples:
        kept = {each: row["answers"]["text"] if each == "answers" else row[each] for each in extras}
        formatted = {"inputs": f"question: {question} context: {context}", "targets": answer}
        golden.append(GoldenExample(row, ({**kept, **formatted, "question": question, "context": context},)))
    return replace(
        benchmark,
        name=f"decanlp_{name}",
        title=f"decaNLP: {title}",
        word=question_template(ask, *extras),
        postprocess=postprocess,
        question_columns=columns,
        extras={"question": "text", "context": "text", **{each: benchmark.extras[each] for each in extras}},
        head=None,
        head_task=benchmark.head_task or (benchmark.name if benchmark.head else ""),
        training_task=training_task,
        examples=tuple(golden),
    )


_MILL = "The mill (1702) burned."
_GERMAN = "What is the translation from English to German?"
_REVIEW = "Is this review negative or positive?"


def _squad_row(question: str, **answers: int) -> RowValues:
    labels = {"text": list(answers), "answer_start": list(answers.values())}
    return {"id": "m1", "title": "Mill", "context": _MILL, "question": question, "answers": labels}


def _inference(benchmark: Benchmark, name: str, training_task: str = "") -> Benchmark:
    def case(hypothesis: str, label: int, answer: str) -> tuple[RowValues, str, str, str]:
        row = {"premise": "Two men row.", "hypothesis": hypothesis, "label": label, "idx": 0}
        question = f'Hypothesis: "{hypothesis}" -- entailment, neutral, or contradiction?'
        return row, question, 'Premise: "Two men row."', answer

    return _decathlon(
        benchmark,
        name,
        benchmark.title,
        ask_inference,
        ("premise", "hypothesis"),
        case("People row.", 0, "entailment"),
        case("Nobody rows.", 2, "contradiction"),
        case("They win.", -1, UNLABELED),
        extras=("idx",),
        training_task=training_task,
    )


SQUAD = _decathlon(
    ALL_ANSWERS,
    "squad",
    "SQuAD 1.1, with its own questions",
    ask_squad,
    ("question", "context"),
    (_squad_row("What burned?", mill=4), "What burned?", _MILL, "mill"),
    (_squad_row("When?", **{"1702": 10, "(1702)": 9}), "When?", _MILL, "1702"),
    (_squad_row("Who?"), "Who?", _MILL, UNLABELED),
    extras=("id", "answers"),
)
TRANSLATION = _decathlon(
    WMT14_ENDE,
    "wmt14_ende",
    "the translation of news from English to German",
    ask_translation,
    ("en",),
    ({"en": "Hello.", "de": "Hallo."}, _GERMAN, "Hello.", "Hallo."),
    ({"en": " 3 < 4", "de": "3 < 4"}, _GERMAN, " 3 < 4", "3 < 4"),
    ({"en": "x", "de": ""}, _GERMAN, "x", ""),
)
SUMMARY = _decathlon(
    CNN_DAILYMAIL,
    "cnn_dailymail",
    "the summary of a news article",
    ask_summary,
    ("article",),
    ({"article": "It snowed.", "highlights": "Snow ."}, "What is the summary?", "It snowed.", "Snow ."),
    ({"article": "A.\nB.", "highlights": "C\nD"}, "What is the summary?", "A.\nB.", "C\nD"),
    ({"article": "", "highlights": ""}, "What is the summary?", "", ""),
)
INFERENCE = _inference(MNLI, "mnli")
INFERENCE_MATCHED = _inference(MNLI_MATCHED, "mnli_matched", INFERENCE.name)
INFERENCE_MISMATCHED = _inference(MNLI_MISMATCHED, "mnli_mismatched", INFERENCE.name)
SENTIMENT = _decathlon(
    SST2,
    "sst",
    "is a sentence of a film review negative or positive?",
    ask_sentiment,
    ("sentence",),
    ({"sentence": "a joy", "label": 1, "idx": 0}, _REVIEW, "a joy", "positive"),
    ({"sentence": "dull .", "label": 0, "idx": 1}, _REVIEW, "dull .", "negative"),
    ({"sentence": "it is", "label": -1, "idx": 2}, _REVIEW, "it is", UNLABELED),
    extras=("idx",),
)

_TRAINED = (
    *(SQUAD, TRANSLATION, SUMMARY, INFERENCE, SENTIMENT),
    *(SEMANTIC_ROLES, RELATIONS, WOZ, WIKI_SQL, PRONOUNS),
)
_EVALUATED = (INFERENCE_MATCHED, INFERENCE_MISMATCHED)
BENCHMARKS = (*_TRAINED, *_EVALUATED)
# The paper trains on a batch of each task in turn, so the shares are equal.
MIXTURES = {"decanlp": {each.name: float(each in _TRAINED) for each in BENCHMARKS}}
