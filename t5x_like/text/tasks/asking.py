"""A user's line of text as the question that a task would put to the model."""

from t5x_like.text.tasks import registry
from t5x_like.text.tasks.pairs import PairsTask


def word_question(task: str, line: str) -> str:
    """Words ``line`` as the task words its rows.

    A wording of one column takes the line itself; one of several takes a JSON object with those columns.
    Tasks that were registered in Python say nothing about their wording: there the line is taken as it is.

    Raises:
      ValueError: unknown task, or not the columns that the wording needs.
    """
    registry.get_task(task)
    definition = registry.definition(task)
    return definition.word_question(line) if isinstance(definition, PairsTask) else line
