"""A user's line of text as the question that a task would put to the model."""

import json

from t5x_like.text.tasks import registry
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.tasks.wording import Template


def word_question(task: str, line: str) -> str:
    """Words ``line`` by the task's input template.

    A template of one column takes the line itself; one of several takes a JSON object with those columns.
    Tasks that were registered in Python say nothing about their wording: there the line is taken as it is.

    Raises:
      ValueError: unknown task, or not the columns that the template needs.
    """
    registry.get_task(task)
    definition = registry.definition(task)
    if not isinstance(definition, TextTask):
        return line
    template = Template(definition.input_template)
    if len(template.fields) == 1:
        return template.fill({template.fields[0]: line})
    try:
        cells = json.loads(line)
        return template.fill({name: str(cells[name]) for name in template.fields})
    except (json.JSONDecodeError, KeyError, TypeError):
        example = json.dumps(dict.fromkeys(template.fields, "…"), ensure_ascii=False)
        raise ValueError(
            f"task {task!r} words {len(template.fields)} columns into its input; give each line as {example}, "
            f"not {line!r}"
        ) from None
