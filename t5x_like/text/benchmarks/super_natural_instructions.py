"""Super-NaturalInstructions: tasks with written definitions, tested on tasks that training doesn't see.

Wang et al. 2022, https://arxiv.org/abs/2204.07705. The English track has 757 tasks to train on and 119 to test on.
The prompt is that of the authors' Tk-Instruct: a task's definition and two positive examples.
"""

import json
import string
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.io.files import as_path, json_value
from t5x_like.io.text_encoding import text_of
from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED
from t5x_like.text.benchmarks.record_files import parse_records
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.metrics import instruction_scores
from t5x_like.text.tasks.rows import BadRow, RawRow, sample_of
from t5x_like.text.tasks.text_lines import filled_lines, text_lines
from t5x_like.text.templates import RowValues

# Of a task: those that Tk-Instruct trains on, and the first ones of a test task, which are balanced over labels.
NUM_INSTANCES = 100
NUM_EXAMPLES = 2
_NAME = "Super-NaturalInstructions"


def _read_split(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read the instances of the tasks that a split's file lists; see ``source.Reader``.

    Raises:
      ValueError: A task's file is no JSON object.
    """
    for line in filled_lines(text_lines(file)):
        if isinstance(line, BadRow):
            yield line
            continue
        task = line.text.strip()
        path = f"{file.rpartition('/splits/')[0]}/tasks/{task}.json"
        if not as_path(path).exists():
            yield BadRow(f"there is no file {path} for the task {task!r}", line.location)
            continue
        try:
            whole = json_value(text_of(path))
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path}:{error.lineno}: invalid JSON: {error.msg} at column {error.colno}"
            ) from None
        if not isinstance(whole, Mapping):
            raise ValueError(f"{path} is no JSON object with the instances of a task")
        record = RawRow({"task": task, "split": split, **whole}, path)
        yield from parse_records([record], _instances, record="task", data_set=_NAME)


def _instances(record: RawRow) -> Iterator[RawRow | BadRow]:
    """Yield the rows of a task's instances."""
    task = record.values
    definition, examples = task["Definition"], task["Positive Examples"][:NUM_EXAMPLES]
    shared = {
        "task": task["task"],
        "category": task["Categories"][0],
        "definition": definition if isinstance(definition, str) else definition[0],
        "example_inputs": [example["input"] for example in examples],
        "example_outputs": [example["output"] for example in examples],
    }
    instances = [
        RawRow(values, f"{record.location}:Instances[{index}]")
        for index, values in enumerate(task["Instances"])
    ]
    if task["split"] == "test":
        chosen = instances[:NUM_INSTANCES]
    else:
        chosen = [instance for _, instance in sample_of(instances, NUM_INSTANCES)]

    def rows(instance: RawRow) -> Iterator[RawRow]:
        values = instance.values
        outputs = [values["output"]] if isinstance(values["output"], str) else list(values["output"])
        if not outputs:
            raise ValueError("the instance has no output")
        yield RawRow(
            {**shared, "id": values["id"], "input": values["input"], "outputs": outputs}, instance.location
        )

    yield from parse_records(chosen, rows, record="instance", data_set=_NAME)


@dataclass(frozen=True, kw_only=True)
class InstructionPrompt:
    """Tk-Instruct's prompt: a task's definition, examples, and the instance to complete.

    Each text ends with a punctuation mark. An example that makes the prompt too long is left out, with those after it.

    Attributes:
      num_examples: Most positive examples.
      max_characters: Length of a prompt with examples. The authors count 1,024 tokens of T5's vocabulary, of which a
        template knows nothing; English has more than 3.5 characters for each.
    """

    num_examples: int = NUM_EXAMPLES
    max_characters: int = 3_584

    def __call__(self, row: RowValues) -> list[FormattedRow]:
        """Return the example of an instance; one of several outputs, by a hash, is the target."""
        inputs = f"Definition: {_ended(row['definition'])}\n\n"
        question = f"Now complete the following example -\nInput: {_ended(row['input'])}\nOutput: "
        pairs = zip(row["example_inputs"], row["example_outputs"], strict=True)
        for index, (text, output) in enumerate(list(pairs)[: self.num_examples], start=1):
            shown = f" Positive Example {index} -\nInput: {_ended(text)}\n Output: {_ended(output)}\n\n"
            if len(inputs) + len(shown) + len(question) > self.max_characters:
                break
            inputs += shown
        outputs: list[str] = list(row["outputs"])
        checksum = zlib.crc32(row["id"].encode("utf-8", "surrogatepass"))
        return [
            {
                "inputs": inputs + question,
                "targets": outputs[checksum % len(outputs)] if outputs else UNLABELED,
                "references": outputs,
                "category": row["category"],
            }
        ]


def _ended(text: str) -> str:
    """Return a text that ends with a punctuation mark, without white space around it."""
    text = text.strip()
    return text if text[-1:] in string.punctuation and text else f"{text}."


def outputs_of(
    text: str, example: Mapping[str, Any] | None = None, is_target: bool = False
) -> str | dict[str, Any]:
    """Return a prediction without white space around it; for a target all outputs, with the task's category.

    Args:
      text: Generated text, or the target.
      example: Fields of the row.
      is_target: Whether the text is a target.
    """
    if not is_target:
        return text.strip()
    fields = example or {}
    return {"outputs": list(fields["references"]), "category": fields["category"]}


_FOLDERS = ("natural-instructions", "natural-instructions-master", "super_natural_instructions")
_SOURCE = BenchmarkSource(
    layouts=(
        FileLayout(
            files=files_in(
                _FOLDERS,
                {split: f"splits/default/{split}_tasks.txt" for split in ("train", "test")},
            ),
            read=_read_split,
        ),
    ),
    rows={"train": 75_417, "test": 11_810},
    downloads=archive("https://github.com/allenai/natural-instructions/archive/refs/heads/master.zip", ""),
    home="https://github.com/allenai/natural-instructions",
    citation="Wang et al. 2022, https://arxiv.org/abs/2204.07705",
    license="Apache 2.0; instances have licenses of their own",
    columns={
        "id": "text",
        "task": "text",
        "category": "text",
        "definition": "text",
        "example_inputs": "texts",
        "example_outputs": "texts",
        "input": "text",
        "outputs": "texts",
    },
)
_SCORED: dict[str, Any] = {
    "question_columns": ("definition", "example_inputs", "example_outputs", "input"),
    "postprocess": outputs_of,
    "metrics": (instruction_scores,),
    "extras": {"references": "texts", "category": "text"},
}
_DEFINITION = "Name the capital of the given country"
_SHOWN = (("Chile.", "Santiago"), ("Mali", "Bamako"))
_ASKED = "Now complete the following example -\nInput: {}.\nOutput: "
_SHOWN_TEXT = (
    " Positive Example 1 -\nInput: Chile.\n Output: Santiago.\n\n"
    " Positive Example 2 -\nInput: Mali.\n Output: Bamako.\n\n"
)


def _example(
    shown: str, text: str, outputs: Sequence[str], target: str, pairs: Sequence[tuple[str, str]] = _SHOWN
) -> GoldenExample:
    row = {
        "id": "task1-a",
        "task": "task1_capitals",
        "category": "Question Answering",
        "definition": _DEFINITION,
        "example_inputs": [each for each, _ in pairs],
        "example_outputs": [output for _, output in pairs],
        "input": text,
        "outputs": list(outputs),
    }
    inputs = f"Definition: {_DEFINITION}.\n\n{shown}{_ASKED.format(text.strip())}"
    formatted = {"inputs": inputs, "targets": target, "references": list(outputs)}
    return GoldenExample(row, ({**formatted, "category": "Question Answering"},))


SUPER_NATURAL_INSTRUCTIONS = Benchmark(
    name="super_natural_instructions",
    title="Super-NaturalInstructions: tasks with a definition and two examples, tested on other tasks",
    source=_SOURCE,
    word=InstructionPrompt(),
    examples=(
        _example(_SHOWN_TEXT, " Peru\n", ["Lima"], "Lima"),
        _example(_SHOWN_TEXT, "Bolivia", ["Sucre", "La Paz"], "Sucre"),
        _example(
            " Positive Example 1 -\nInput: Chile.\n Output: Santiago.\n\n",
            "Peru",
            ["Lima"],
            "Lima",
            ((_SHOWN[0]), ("Mali" * 1000, "Bamako")),
        ),
    ),
    **_SCORED,
)
SUPER_NATURAL_INSTRUCTIONS_DEFINITION = Benchmark(
    name="super_natural_instructions_definition",
    title="Super-NaturalInstructions: tasks with a definition alone, tested on other tasks",
    source=_SOURCE,
    word=InstructionPrompt(num_examples=0),
    examples=(
        _example("", " Peru\n", ["Lima"], "Lima"),
        _example("", "Bolivia", ["Sucre", "La Paz"], "Sucre"),
        _example("", "Ghana", ["Accra"], "Accra"),
    ),
    **_SCORED,
)

BENCHMARKS = (SUPER_NATURAL_INSTRUCTIONS, SUPER_NATURAL_INSTRUCTIONS_DEFINITION)
