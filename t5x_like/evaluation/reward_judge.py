"""A reward model as judge of answers."""

import math
from collections.abc import Sequence

from t5x_like.evaluation.judgments import Judge
from t5x_like.evaluation.paired_answers import AnswerPair, shortened
from t5x_like.evaluation.row_predictors import RowPredictor
from t5x_like.evaluation.table_predictions import predict_rows
from t5x_like.text.tasks.rows import RawRow


def reward_judge(predictor: RowPredictor) -> Judge:
    """Return a judge that prefers the answer with the higher reward.

    Args:
      predictor: Reward model, whose rows have a prompt and an answer.

    Raises:
      ValueError: It predicts something else.
    """
    columns = predictor.input_columns
    if predictor.can_generate or predictor.has_probabilities or len(columns) != 2:
        raise ValueError(
            "this model is no judge, which predicts a number for a prompt and an answer; give a model that RewardModel "
            "trained, or the export of one"
        )
    rewards: dict[tuple[str, str], float] = {}

    def judge(pairs: Sequence[AnswerPair]) -> list[float]:
        texts = {(pair.prompt, answer): None for pair in pairs for answer in (pair.first, pair.second)}
        new = [each for each in texts if each not in rewards]
        rows = [RawRow(dict(zip(columns, each, strict=True)), f"answer {shortened(each[1])}") for each in new]
        for each, row in zip(new, predict_rows(predictor, rows), strict=True):
            if math.isnan(row.prediction):
                raise ValueError(
                    f"the reward of {shortened(each[1])} is not a number (NaN); give other weights"
                )
            rewards[each] = row.prediction
        return [rewards[pair.prompt, pair.first] - rewards[pair.prompt, pair.second] for pair in pairs]

    return judge
