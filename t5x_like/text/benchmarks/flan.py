"""FLAN's tasks as instructions (Wei et al. 2021, section 2.1 and appendix G, https://arxiv.org/abs/2109.01652).

FLAN has 62 data sets in twelve clusters, with ten templates for each. Here are those that other tasks of ours read,
in the paper's clusters, with three templates for each kind of task. The sentences are ours, and none turns its task
around. Translations are those of WMT 2014 to 2016, and SQuAD is version 1.1.
"""

from collections.abc import Mapping

from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.choices import HELLASWAG, WINOGRANDE
from t5x_like.text.benchmarks.closed_book import NATURAL_QUESTIONS, TRIVIA_QA
from t5x_like.text.benchmarks.coqa import COQA
from t5x_like.text.benchmarks.dpr import DPR
from t5x_like.text.benchmarks.entailment import ANLI_R1, ANLI_R2, ANLI_R3, SNLI
from t5x_like.text.benchmarks.flan_templates import (
    ACCEPTABLE,
    ANSWERS_IT,
    BLANK,
    BY_HEART,
    CAUSE,
    CONTINUE,
    CONVERSATION,
    ENTAILS,
    GAP,
    GOOD_OR_BAD,
    IS_RIGHT,
    READ,
    REFERENT,
    SAME,
    SAME_QUESTION,
    SENSE,
    SENTIMENT,
    SIMILARITY,
    SUMMARIZE,
    SURE,
    TRANSLATE,
    UNSURE,
    YES_NO,
)
from t5x_like.text.benchmarks.glue import COLA, MRPC, QQP, SST2, STSB
from t5x_like.text.benchmarks.glue_inference import MNLI, QNLI, WNLI
from t5x_like.text.benchmarks.instructions import Answers, columns, instructed
from t5x_like.text.benchmarks.paws import PAWS
from t5x_like.text.benchmarks.reviews import IMDB
from t5x_like.text.benchmarks.squad import ALL_ANSWERS
from t5x_like.text.benchmarks.story_cloze import STORY_CLOZE
from t5x_like.text.benchmarks.summarization import CNN_DAILYMAIL, XSUM
from t5x_like.text.benchmarks.super_glue import WIC
from t5x_like.text.benchmarks.super_glue_inference import CB, RTE
from t5x_like.text.benchmarks.super_glue_questions import BOOLQ, COPA, MULTIRC, RECORD, without_markup
from t5x_like.text.benchmarks.translation import WMT14_ENDE, WMT14_ENFR, WMT15_ENCS, WMT16_ENRO
from t5x_like.text.templates import RowValues

MAX_RATE = 3_000  # of a task in the mixture, section 2.4


def _conversation(row: RowValues) -> dict[str, str]:
    history = list(row["history"])
    turns = zip(history[::2], history[1::2], strict=False)
    before = "".join(f"Question: {question}\nAnswer: {answered}\n" for question, answered in turns)
    return {"story": row["story"], "conversation": before, "question": row["question"]}


def _multirc(row: RowValues) -> dict[str, str]:
    names = {"context": "paragraph", "question": "question", "answer": "answer"}
    return {field: without_markup(row[column]) for field, column in names.items()}


def _record(row: RowValues) -> dict[str, str]:
    return {"passage": row["passage"].replace("\n@highlight\n", "\n"), "query": row["query"]}


def _choices(*names: str) -> Answers:
    """Return a row's choices, from several columns or a list in one, by the labels ``choice1`` and so on."""

    def listed(row: RowValues) -> dict[str, str]:
        texts = row[names[0]] if len(names) == 1 else [row[name] for name in names]
        return {f"choice{choice}": text for choice, text in enumerate(texts, start=1)}

    return listed


def _themselves(row: RowValues, name: str) -> dict[str, str]:
    return {text: text for text in row[name]}


def _entails(
    benchmark: Benchmark, name: str, answers: Mapping[str, str], premise: str, hypothesis: str
) -> Benchmark:
    return instructed(
        benchmark, f"flan_{name}", ENTAILS, columns(premise=premise, hypothesis=hypothesis), answers
    )


def _translates(benchmark: Benchmark, pair: str, language: str) -> Benchmark:
    templates = tuple(each.replace("{language}", language) for each in TRANSLATE)
    return instructed(benchmark, f"flan_{pair}", templates, columns(text="en"))


_SENTENCES = columns(first="sentence1", second="sentence2")
_PREMISE = ("premise", "hypothesis")
CLUSTERS: dict[str, tuple[Benchmark, ...]] = {
    "natural_language_inference": (
        *(_entails(each, each.name, UNSURE, "context", "hypothesis") for each in (ANLI_R1, ANLI_R2, ANLI_R3)),
        _entails(CB, "cb", UNSURE, *_PREMISE),
        _entails(MNLI, "mnli", UNSURE, *_PREMISE),
        instructed(QNLI, "flan_qnli", ANSWERS_IT, columns(question="question", sentence="sentence"), SURE),
        _entails(RTE, "rte", SURE, *_PREMISE),
        _entails(SNLI, "snli", UNSURE, *_PREMISE),
        _entails(WNLI, "wnli", SURE, "sentence1", "sentence2"),
    ),
    "commonsense": (
        instructed(
            COPA,
            "flan_copa",
            CAUSE,
            columns(premise="premise", question="question"),
            _choices("choice1", "choice2"),
        ),
        instructed(HELLASWAG, "flan_hellaswag", CONTINUE, columns(context="context"), _choices("endings")),
        instructed(
            STORY_CLOZE, "flan_story_cloze", CONTINUE, columns(context="context"), _choices("endings")
        ),
    ),
    "sentiment": (
        instructed(IMDB, "flan_imdb", SENTIMENT, columns(text="text"), GOOD_OR_BAD),
        instructed(SST2, "flan_sst2", SENTIMENT, columns(text="sentence"), GOOD_OR_BAD),
    ),
    "paraphrase": (
        instructed(MRPC, "flan_mrpc", SAME, _SENTENCES, {"not_equivalent": "no", "equivalent": "yes"}),
        instructed(PAWS, "flan_paws_wiki", SAME, _SENTENCES, {"not_paraphrase": "no", "paraphrase": "yes"}),
        instructed(
            QQP,
            "flan_qqp",
            SAME_QUESTION,
            columns(first="question1", second="question2"),
            {"not_duplicate": "no", "duplicate": "yes"},
        ),
        instructed(STSB, "flan_stsb", SIMILARITY, _SENTENCES),
    ),
    "closed_book": (
        instructed(NATURAL_QUESTIONS, "flan_natural_questions", BY_HEART, columns(question="question")),
        instructed(TRIVIA_QA, "flan_trivia_qa", BY_HEART, columns(question="question")),
    ),
    "reading": (
        instructed(
            BOOLQ,
            "flan_boolq",
            YES_NO,
            columns(passage="passage", question="question"),
            {"False": "no", "True": "yes"},
        ),
        instructed(MULTIRC, "flan_multirc", IS_RIGHT, _multirc, {"False": "False", "True": "True"}),
        instructed(ALL_ANSWERS, "flan_squad_v1", READ, columns(context="context", question="question")),
    ),
    "reading_with_commonsense": (
        instructed(RECORD, "flan_record", GAP, _record, lambda row: _themselves(row, "entities")),
    ),
    "coreference": (
        instructed(
            DPR,
            "flan_dpr",
            REFERENT,
            columns(sentence="sentence", pronoun="pronoun"),
            lambda row: _themselves(row, "candidates"),
        ),
        instructed(
            WINOGRANDE, "flan_winogrande", BLANK, columns(sentence="sentence"), _choices("option1", "option2")
        ),
    ),
    "miscellaneous": (
        instructed(COQA, "flan_coqa", CONVERSATION, _conversation),
        instructed(
            COLA,
            "flan_cola",
            ACCEPTABLE,
            columns(sentence="sentence"),
            {"unacceptable": "no", "acceptable": "yes"},
        ),
        instructed(
            WIC,
            "flan_wic",
            SENSE,
            columns(word="word", first="sentence1", second="sentence2"),
            {"False": "no", "True": "yes"},
        ),
    ),
    "summarization": (
        instructed(CNN_DAILYMAIL, "flan_cnn_dailymail", SUMMARIZE, columns(text="article")),
        instructed(XSUM, "flan_xsum", SUMMARIZE, columns(text="document")),
    ),
    "translation": (
        _translates(WMT14_ENFR, "wmt14_enfr", "French"),
        _translates(WMT14_ENDE, "wmt14_ende", "German"),
        _translates(WMT15_ENCS, "wmt15_encs", "Czech"),
        _translates(WMT16_ENRO, "wmt16_enro", "Romanian"),
    ),
}
BENCHMARKS = tuple(benchmark for cluster in CLUSTERS.values() for benchmark in cluster)
# A task's rate is its number of examples, MAX_RATE at most. Story Cloze has no training rows, so it is evaluated only.
MIXTURES = {"flan_2021": {each.name: float(min(each.num_training_examples, MAX_RATE)) for each in BENCHMARKS}}
