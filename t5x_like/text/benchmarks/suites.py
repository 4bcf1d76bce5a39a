"""GLUE, SuperGLUE and XTREME as suites: their tasks, their average, and the files of GLUE's servers.

To add a suite, write one ``Suite`` and name it in ``SUITES``. Evaluation, averages, reports and submissions read it
from there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from t5x_like.text.benchmarks.xtreme_languages import (
    MLQA,
    PANX,
    PAWSX,
    TYDIQA,
    UDPOS,
    UDPOS_TEST_ONLY,
    XNLI,
    XQUAD,
)

Scores = Mapping[str, float | None]  # by "task/metric", times 100; None where it is not a number


@dataclass(frozen=True, kw_only=True)
class SubmissionFile:
    """One file of a submission to a suite's server.

    Attributes:
      task: Name of the task whose predictions it holds.
      file: Its name in the zip. ``.tsv`` is a table with a header, ``.jsonl`` one JSON object per line.
      rows: Number of rows of the test split, as in the suite's paper.
      kind: "number" is from 0 to 5; "nested" are MultiRC's answers by question and passage.
      words: The server's class names in the order of T5's class ids. JSON has digits as numbers, other names as
        strings.
    """

    task: str
    file: str
    rows: int
    kind: Literal["classes", "number", "text", "nested"] = "classes"
    words: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """True for tab-separated files with a header (GLUE), False for JSON lines (SuperGLUE)."""
        return self.file.endswith(".tsv")


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tasks that are evaluated together, with their average and their server's files.

    Attributes:
      name: Name on the command line.
      title: Name for people.
      tasks: Names of the tasks with labeled validation splits.
      test_only: Names of further tasks, which have only a test split with hidden labels.
      average: Metrics ("task/metric") by group. A group's score is their mean; the suite's average is the mean over
        groups. Empty if the suite has no average.
      submission: Files that the server scores; empty if there is no server.
      definition: Words for people about the average.
      needs_all: Leave out the average of an incomplete suite, whose tasks are also evaluated alone.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    test_only: tuple[str, ...] = ()
    average: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    submission: tuple[SubmissionFile, ...] = ()
    definition: str = "as T5 defines it"
    needs_all: bool = False

    @property
    def all_tasks(self) -> tuple[str, ...]:
        """Names of all tasks, those with only a test split last."""
        return self.tasks + self.test_only

    def tasks_of(self, split: str) -> tuple[str, ...]:
        """Return the names of the tasks that have a split."""
        return self.all_tasks if split == "test" else self.tasks

    def has_any_score(self, scores: Scores) -> bool:
        """Return True if any of ``scores`` is a part of the average, or all parts for a suite that needs them."""
        return (all if self.needs_all else any)(name in scores for name in self._averaged)

    def missing(self, scores: Scores) -> list[str]:
        """Return the metrics, "task/metric", that the average needs and ``scores`` lacks (or has as ``None``)."""
        return [name for name in self._averaged if scores.get(name) is None]

    def average_of(self, scores: Scores) -> float | None:
        """Return the mean over groups of the mean of each group's metrics; ``None`` if a metric is missing."""
        if not self.average or self.missing(scores):
            return None
        return _mean(_mean(float(scores[name] or 0.0) for name in names) for names in self.average.values())

    @property
    def _averaged(self) -> list[str]:
        return [name for names in self.average.values() for name in names]


def suite_named(name: str) -> Suite:
    """Return the suite of that name.

    Raises:
      ValueError: There is none.
    """
    if name not in SUITES:
        raise ValueError(f"there is no suite {name!r}, only {', '.join(SUITES)}")
    return SUITES[name]


def suite_of_server(task: str) -> Suite | None:
    """Return the suite whose server scores a task's answers, or ``None``."""
    return next(
        (suite for suite in SUITES.values() if any(task == each.task for each in suite.submission)), None
    )


def submission_files(tasks: Iterable[str] | None = None) -> list[SubmissionFile]:
    """Return the files of all suites that hold answers to ``tasks``, or to any task where not given."""
    every = [file for suite in SUITES.values() for file in suite.submission]
    return every if tasks is None else [file for file in every if file.task in set(tasks)]


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


_NLI = ("entailment", "neutral", "contradiction")
_RTE = ("entailment", "not_entailment")
_NUMBERS = ("0", "1")


def _glue(task: str, file: str, rows: int, words: tuple[str, ...] = _NUMBERS) -> SubmissionFile:
    kind = "classes" if words else "number"
    return SubmissionFile(task=f"glue_{task}_v002", file=f"{file}.tsv", rows=rows, kind=kind, words=words)


def _super_glue(task: str, file: str, rows: int, words: tuple[str, ...]) -> SubmissionFile:
    return SubmissionFile(task=f"super_glue_{task}", file=f"{file}.jsonl", rows=rows, words=words)


# WNLI and AX are not averaged (Raffel et al. 2020, §2.3, https://arxiv.org/abs/1910.10683). Servers accept them, in the
# files of https://gluebenchmark.com/faq and https://super.gluebenchmark.com/faq. Row counts of test splits are from the
# papers: Wang et al. 2019, https://arxiv.org/abs/1804.07461, Table 1, and https://arxiv.org/abs/1905.00537, Table 1.
GLUE = Suite(
    name="glue",
    title="GLUE",
    tasks=tuple(
        f"glue_{name}_v002"
        for name in ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli")
    ),
    test_only=("glue_ax_v002",),
    average={
        "CoLA": ("glue_cola_v002/matthews_corrcoef",),
        "SST-2": ("glue_sst2_v002/accuracy",),
        "MRPC": ("glue_mrpc_v002/f1", "glue_mrpc_v002/accuracy"),
        "STSB": ("glue_stsb_v002/pearson_corrcoef", "glue_stsb_v002/spearman_corrcoef"),
        "QQP": ("glue_qqp_v002/f1", "glue_qqp_v002/accuracy"),
        "MNLI": ("glue_mnli_matched_v002/accuracy", "glue_mnli_mismatched_v002/accuracy"),
        "QNLI": ("glue_qnli_v002/accuracy",),
        "GLUE RTE": ("glue_rte_v002/accuracy",),
    },
    submission=(
        _glue("cola", "CoLA", 1_063),
        _glue("sst2", "SST-2", 1_821),
        _glue("mrpc", "MRPC", 1_725),
        _glue("stsb", "STS-B", 1_379, ()),
        _glue("qqp", "QQP", 390_965),
        _glue("mnli_matched", "MNLI-m", 9_796, _NLI),
        _glue("mnli_mismatched", "MNLI-mm", 9_847, _NLI),
        _glue("qnli", "QNLI", 5_463, _RTE),
        _glue("rte", "RTE", 3_000, _RTE),
        _glue("wnli", "WNLI", 146),
        _glue("ax", "AX", 1_104, _NLI),
    ),
)  # fmt: skip

SUPER_GLUE = Suite(
    name="super_glue",
    title="SuperGLUE",
    tasks=tuple(
        f"super_glue_{name}"
        for name in ("boolq_v102", "cb_v102", "copa_v102", "multirc_v102", "record_v102", "rte_v102", "wic_v102",
                     "wsc_v102_simple_eval")
    ),
    test_only=("super_glue_axb_v102", "super_glue_axg_v102"),
    average={
        "BoolQ (accuracy)": ("super_glue_boolq_v102/accuracy",),
        "CB": ("super_glue_cb_v102/mean_3class_f1", "super_glue_cb_v102/accuracy"),
        "CoPA": ("super_glue_copa_v102/accuracy",),
        "MultiRC": ("super_glue_multirc_v102/f1", "super_glue_multirc_v102/exact_match"),
        "ReCoRD": ("super_glue_record_v102/f1", "super_glue_record_v102/em"),
        "SuperGLUE RTE": ("super_glue_rte_v102/accuracy",),
        "WiC": ("super_glue_wic_v102/accuracy",),
        "WSC": ("super_glue_wsc_v102_simple_eval/accuracy",),
    },
    submission=(
        _super_glue("boolq_v102", "BoolQ", 3_245, ("false", "true")),
        _super_glue("cb_v102", "CB", 250, ("entailment", "contradiction", "neutral")),
        _super_glue("copa_v102", "COPA", 500, _NUMBERS),
        SubmissionFile(
            task="super_glue_multirc_v102", file="MultiRC.jsonl", rows=9_693, kind="nested", words=_NUMBERS
        ),
        SubmissionFile(task="super_glue_record_v102", file="ReCoRD.jsonl", rows=10_000, kind="text"),
        _super_glue("rte_v102", "RTE", 3_000, _RTE),
        _super_glue("wic_v102", "WiC", 1_400, ("false", "true")),
        _super_glue("wsc_v102_simple_eval", "WSC", 146, ("False", "True")),
        _super_glue("axb_v102", "AX-b", 1_104, _RTE),
        _super_glue("axg_v102", "AX-g", 356, _RTE),
    ),
)  # fmt: skip


def _of_languages(
    name: str, title: str, languages: Iterable[str], metrics: tuple[str, ...], test_only: tuple[str, ...] = ()
) -> Suite:
    """Return a suite of one task in several languages, whose average is the mean over languages and metrics."""
    tasks = {language: f"{name}_{language}" for language in languages}
    return Suite(
        name=name,
        title=title,
        tasks=tuple(task for language, task in tasks.items() if language not in test_only),
        test_only=tuple(tasks[language] for language in test_only),
        average={title: tuple(f"{task}/{metric}" for task in tasks.values() for metric in metrics)},
        definition="the mean over its languages",
        needs_all=True,
    )


# The metrics of evaluate.py of google-research/xtreme, whose score is the mean over tasks of the mean over languages.
_QUESTIONS = ("em", "f1")
XTREME_TASKS = (
    _of_languages("xnli", "XNLI", XNLI, ("accuracy",)),
    _of_languages("pawsx", "PAWS-X", PAWSX, ("accuracy",)),
    _of_languages("udpos", "UD-POS", UDPOS, ("f1",), UDPOS_TEST_ONLY),
    _of_languages("panx", "PAN-X", PANX, ("f1",)),
    _of_languages("xquad", "XQuAD", XQUAD, _QUESTIONS),
    _of_languages("mlqa", "MLQA", MLQA, _QUESTIONS),
    _of_languages("tydiqa_goldp", "TyDiQA-GoldP", TYDIQA, _QUESTIONS),
)
XTREME = Suite(
    name="xtreme",
    title="XTREME without retrieval",
    tasks=tuple(task for suite in XTREME_TASKS for task in suite.tasks),
    test_only=tuple(task for suite in XTREME_TASKS for task in suite.test_only),
    average={group: names for suite in XTREME_TASKS for group, names in suite.average.items()},
    definition="the mean over its tasks, two of which are missing",
    needs_all=True,
)

SUITES: Mapping[str, Suite] = {suite.name: suite for suite in (GLUE, SUPER_GLUE, XTREME, *XTREME_TASKS)}
# Suites with a server.
SERVED: Mapping[str, Suite] = {name: suite for name, suite in SUITES.items() if suite.submission}
