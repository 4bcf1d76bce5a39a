"""TACRED: the relation of two entities in a sentence (Zhang et al. 2017, https://aclanthology.org/D17-1004).

Two templates: SpanBERT's, which replaces the entities by their types (Joshi et al. 2020, section 4.1), and the markers
of Zhang et al. 2019 (https://arxiv.org/abs/1905.07129, section 3.5), whose model is called ERNIE, too.
``[SUBJ-PERSON]`` and ``[HD]`` are several tokens unless the vocabulary has them.
"""

from collections.abc import Iterator, Sequence

from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.keyed_template import UNLABELED, classification_benchmark, label_examples
from t5x_like.text.benchmarks.record_files import parse_records, records_at_top
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in
from t5x_like.text.heads import SequenceClassification
from t5x_like.text.metrics import micro_f1_without
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues

_OF_ORGANIZATIONS = (
    "alternate_names", "city_of_headquarters", "country_of_headquarters", "dissolved", "founded", "founded_by",
    "member_of", "members", "number_of_employees/members", "parents", "political/religious_affiliation",
    "shareholders", "stateorprovince_of_headquarters", "subsidiaries", "top_members/employees", "website",
)  # fmt: skip
_OF_PERSONS = (
    "age", "alternate_names", "cause_of_death", "charges", "children", "cities_of_residence", "city_of_birth",
    "city_of_death", "countries_of_residence", "country_of_birth", "country_of_death", "date_of_birth",
    "date_of_death", "employee_of", "origin", "other_family", "parents", "religion", "schools_attended", "siblings",
    "spouse", "stateorprovince_of_birth", "stateorprovince_of_death", "stateorprovinces_of_residence", "title",
)  # fmt: skip
RELATIONS = (
    "no_relation",
    *(f"org:{name}" for name in _OF_ORGANIZATIONS),
    *(f"per:{name}" for name in _OF_PERSONS),
)
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def _read_tacred(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a row for each sentence of TACRED's JSON. See ``source.Reader``.

    ``masked`` is the sentence with the entities' types in their places, ``marked`` that with markers around them.

    Raises:
      ValueError: The file is not a list in JSON.
    """
    del split
    sentences = records_at_top(file, data_set="TACRED")

    def rows(sentence: RawRow) -> Iterator[RawRow]:
        yield RawRow(_row(sentence.values), sentence.location)

    return parse_records(sentences, rows, record="sentence", data_set="TACRED")


def _row(sentence: RowValues) -> dict[str, object]:
    tokens: list[str] = sentence["token"]
    words = [_BRACKETS.get(word, word) for word in tokens]
    masked, marked = list(words), list(words)
    for role, marker in (("subj", "[HD]"), ("obj", "[TL]")):
        first, last = int(sentence[f"{role}_start"]), int(sentence[f"{role}_end"])
        if not 0 <= first <= last < len(words):
            raise ValueError(f"{role}_start {first} and {role}_end {last} are no words of {len(words)}")
        masked[first : last + 1] = [f"[{role.upper()}-{sentence[f'{role}_type']}]", *[""] * (last - first)]
        marked[first] = f"{marker} {marked[first]}"
        marked[last] += f" {marker}"
    relation = sentence.get("relation")
    if relation is not None and relation not in RELATIONS:
        raise ValueError(f"the relation {relation!r} is none of TACRED's {len(RELATIONS)}")
    return {
        "masked": _joined(masked),
        "marked": _joined(marked),
        "label": -1 if relation is None else RELATIONS.index(relation),
    }


def _joined(words: Sequence[str]) -> str:
    return " ".join(word for word in words if word)


_SOURCE = BenchmarkSource(
    layouts=(
        FileLayout(
            files=files_in(
                ("tacred/data/json", "tacred", "TACRED/data/json"),
                {"train": "train.json", "validation": "dev.json", "test": "test.json"},
            ),
            read=_read_tacred,
        ),
    ),
    rows={"train": 68_124, "validation": 22_631, "test": 15_509},
    home="https://nlp.stanford.edu/projects/tacred (LDC2018T24)",
    citation="Zhang et al. 2017, https://aclanthology.org/D17-1004",
    license="the Linguistic Data Consortium's",
    columns={"masked": "text", "marked": "text", "label": "int"},
)
_BORN = (
    ("[SUBJ-PERSON] was born in [OBJ-CITY] .", "[HD] Ann Lee [HD] was born in [TL] Oslo [TL] ."),
    ("[OBJ-ORGANIZATION] met [SUBJ-PERSON] .", "[TL] Mill & Co [TL] met [HD] him [HD] ."),
    ("[SUBJ-PERSON] saw [OBJ-DATE] .", "[HD] Bo [HD] saw [TL] May [TL] ."),
)
_CITY = RELATIONS.index("per:city_of_birth")


def _tacred(name: str, title: str, column: str) -> Benchmark:
    shown = [texts[("masked", "marked").index(column)] for texts in _BORN]
    answers = ((_CITY, "per:city_of_birth"), (0, "no_relation"), (-1, UNLABELED))
    return classification_benchmark(
        name,
        f"TACRED: the relation of two entities, {title}",
        word="tacred",
        source=_SOURCE,
        labels=RELATIONS,
        columns={"sentence": column},
        has_index=False,
        metrics=(micro_f1_without(0),),
        head=SequenceClassification(texts=(f"{{{column}}}",), classes=RELATIONS),
        question_columns=(column,),
        examples=label_examples(
            ("masked", "marked"),
            *(
                (texts, label, f"tacred sentence: {text}", answer)
                for texts, text, (label, answer) in zip(_BORN, shown, answers, strict=True)
            ),
            has_index=False,
        ),
    )


TACRED = _tacred("tacred", "which are replaced by their types", "masked")
TACRED_MARKED = _tacred("tacred_marked", "which have markers around them", "marked")

BENCHMARKS = (TACRED, TACRED_MARKED)
