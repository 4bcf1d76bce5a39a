"""decaNLP's WOZ: how a turn of a dialogue changes what the user wants (Wen et al. 2017; Mrkšić et al. 2017).

Question, context and answer are those of https://github.com/salesforce/decaNLP, text/torchtext/datasets/generic.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from t5x_like.nested_values import one_or_several
from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.decathlon_template import QuestionContext, question_template
from t5x_like.text.benchmarks.record_files import parse_records, records_at_top
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, files_in, plain_files
from t5x_like.text.metrics.structured_answers import joint_goal_em
from t5x_like.text.postprocessing import Example
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues

QUESTION = "What is the change in state?"
NO_CHANGE = "None"


def _read_dialogues(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read a row for each turn of the dialogues of a JSON list. See ``source.Reader``.

    Raises:
      ValueError: The file is not a list in JSON.
    """
    del split
    for index, dialogue in enumerate(records_at_top(file, data_set="WOZ")):
        read = partial(_turns, index)
        yield from parse_records([dialogue], read, record="dialogue or one of its turns", data_set="WOZ")


def _turns(index: int, dialogue: RawRow) -> Iterator[RawRow]:
    known: Sequence[Sequence[str]] = ()
    for turn, said in enumerate(dialogue.values["dialogue"]):
        row, known = _turn(said, known)
        yield RawRow({"dialogue": index, "turn": turn, **row}, f"{dialogue.location}.dialogue[{turn}]")


def _turn(
    said: Mapping[str, Any], known: Sequence[Sequence[str]]
) -> tuple[dict[str, object], Sequence[Sequence[str]]]:
    """Return a turn's row, and the slots with values that are known after it."""
    beliefs = [
        (belief["act"], [str(part) for part in slot])
        for belief in said["belief_state"]
        for slot in belief.get("slots", ())
    ]
    now = [slot for act, slot in beliefs if act == "inform"]
    row = {
        "acts": [": ".join(one_or_several(act)) for act in said["system_acts"]],
        "transcript": said["transcript"],
        "informed": [f"{slot[0]}: {slot[1]}" for slot in now if slot not in known],
        "requested": [slot[1] for act, slot in beliefs if act != "inform"],
    }
    return row, now


def ask_change(row: RowValues) -> QuestionContext:
    """Ask for the change of state, after the system's acts and the user's words."""
    acts = ", ".join(row["acts"])
    context = (
        " ".join(f"{acts} -- {row['transcript']}".split()) if acts else " ".join(row["transcript"].split())
    )
    informed, requested = ", ".join(row["informed"]), ", ".join(row["requested"])
    change = f"{informed}; {requested}" if requested else f"{informed};"
    return QuestionContext(QUESTION, context, (change if informed or requested else NO_CHANGE,))


def _dialogue_turn(text: str, example: Example | None = None, is_target: bool = False) -> dict[str, object]:
    """Return the change as ``value``; for targets also ``dialogue`` and ``turn``."""
    if not is_target:
        return {"value": text}
    if example is None or "turn" not in example:
        raise ValueError("the example of a target must have 'dialogue' and 'turn', which its template gives")
    return {"value": text, "dialogue": int(example["dialogue"]), "turn": int(example["turn"])}


def _example(
    turn: int, transcript: str, context: str, answer: str, *, acts: Sequence[str] = (), **change: list[str]
) -> GoldenExample:
    row = {"dialogue": 3, "turn": turn, "acts": list(acts), "transcript": transcript}
    formatted = {
        "inputs": f"question: {QUESTION} context: {context}",
        "targets": answer,
        "question": QUESTION,
    }
    return GoldenExample(
        {**row, "informed": [], "requested": [], **change},
        ({**formatted, "context": context, "dialogue": 3, "turn": turn},),
    )


WOZ = Benchmark(
    name="decanlp_woz",
    title="decaNLP: WOZ, the change of a dialogue's state by a user's turn",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("woz", "decanlp/woz"),
                    {
                        "train": "woz_train_en.json",
                        "validation": "woz_validate_en.json",
                        "test": "woz_test_en.json",
                    },
                ),
                read=_read_dialogues,
            ),
        ),
        rows={"train": 2_536, "validation": 830, "test": 1_646},
        downloads=plain_files(
            "https://raw.githubusercontent.com/nmrksic/neural-belief-tracker/master/data/woz",
            "woz",
            {f"woz_{split}_en.json": (None, None) for split in ("train", "validate", "test")},
        ),
        home="https://github.com/nmrksic/neural-belief-tracker",
        citation="Wen et al. 2017, https://arxiv.org/abs/1604.04562; Mrkšić et al. 2017, "
        "https://arxiv.org/abs/1606.03777; McCann et al. 2018, https://arxiv.org/abs/1806.08730",
        license="that of the repository; see its page",
        columns={
            "dialogue": "int",
            "turn": "int",
            "acts": "texts",
            "transcript": "text",
            "informed": "texts",
            "requested": "texts",
        },
    ),
    word=question_template(ask_change, "dialogue", "turn"),
    question_columns=("acts", "transcript"),
    postprocess=_dialogue_turn,
    metrics=(joint_goal_em,),
    extras={"question": "text", "context": "text", "dialogue": "int", "turn": "int"},
    group_columns=("dialogue",),
    examples=(
        _example(
            0,
            "Are there any Eritrean restaurants in town?",
            "Are there any Eritrean restaurants in town?",
            "food: eritrean;",
            informed=["food: eritrean"],
        ),
        _example(
            1,
            "Then Thai, in the north.  And the phone number?",
            "food -- Then Thai, in the north. And the phone number?",
            "food: thai, area: north; phone",
            acts=["food"],
            informed=["food: thai", "area: north"],
            requested=["phone"],
        ),
        _example(2, "Thanks!", "price range: cheap -- Thanks!", "None", acts=["price range: cheap"]),
    ),
)
