"""What the servers of GLUE and SuperGLUE take: one file a task in a zip, its rows, its words.

https://gluebenchmark.com/faq and https://super.gluebenchmark.com/faq; test rows as the benchmarks' papers count them
(Wang et al. 2019, https://arxiv.org/abs/1804.07461, Table 1, and https://arxiv.org/abs/1905.00537, Table 1).
"""

from dataclasses import dataclass
from typing import Literal

_NLI = ("entailment", "neutral", "contradiction")
_RTE = ("entailment", "not_entailment")
_NUMBERS = ("0", "1")


@dataclass(frozen=True, kw_only=True)
class SubmissionForm:
    """One file of a submission.

    ``words`` are what the server calls the classes, in the order of T5's numbers for them; JSON has them as
    strings, and as numbers where they are digits. "number" is from 0 to 5, "nested" are MultiRC's answers by
    question and passage.
    """

    task: str  # whose answers these are, by T5's name
    file: str
    rows: int
    kind: Literal["classes", "number", "text", "nested"] = "classes"
    words: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Tab-separated with a header (GLUE), rather than one JSON object a line (SuperGLUE)."""
        return self.file.endswith(".tsv")


def _glue(task: str, file: str, rows: int, words: tuple[str, ...] = _NUMBERS) -> SubmissionForm:
    kind = "classes" if words else "number"
    return SubmissionForm(task=f"glue_{task}_v002", file=f"{file}.tsv", rows=rows, kind=kind, words=words)


def _super_glue(task: str, file: str, rows: int, words: tuple[str, ...]) -> SubmissionForm:
    return SubmissionForm(task=f"super_glue_{task}", file=f"{file}.jsonl", rows=rows, words=words)


SUBMISSIONS: dict[str, tuple[SubmissionForm, ...]] = {
    "glue": (
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
    "super_glue": (
        _super_glue("boolq_v102", "BoolQ", 3_245, ("false", "true")),
        _super_glue("cb_v102", "CB", 250, ("entailment", "contradiction", "neutral")),
        _super_glue("copa_v102", "COPA", 500, _NUMBERS),
        SubmissionForm(
            task="super_glue_multirc_v102", file="MultiRC.jsonl", rows=9_693, kind="nested", words=_NUMBERS
        ),
        SubmissionForm(task="super_glue_record_v102", file="ReCoRD.jsonl", rows=10_000, kind="text"),
        _super_glue("rte_v102", "RTE", 3_000, _RTE),
        _super_glue("wic_v102", "WiC", 1_400, ("false", "true")),
        SubmissionForm(
            task="super_glue_wsc_v102_simple_eval",
            file="WSC.jsonl",
            rows=146,
            words=("False", "True"),
        ),
        _super_glue("axb_v102", "AX-b", 1_104, _RTE),
        _super_glue("axg_v102", "AX-g", 356, _RTE),
    ),
}


def form_of(task: str) -> SubmissionForm | None:
    """The file that a task's answers go into, or ``None``."""
    return next((form for forms in SUBMISSIONS.values() for form in forms if task == form.task), None)


def benchmark_of(task: str) -> str | None:
    """Which server takes a task's answers, or ``None``."""
    return next(
        (name for name, forms in SUBMISSIONS.items() if any(task == form.task for form in forms)), None
    )
