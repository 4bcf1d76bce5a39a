"""Cross-encoders: a head reads query and passage together, and its number orders search results anew."""

from collections.abc import Sequence

import numpy as np

from t5x_like.evaluation.checkpoint_predictor import checkpoint_predictor
from t5x_like.evaluation.row_predictors import TEXT, HeadRowPredictor
from t5x_like.model.model_traits import traits_of
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.retrieval.vector_index import RankedPassage, sort_results
from t5x_like.text.batches.head_questions import questions_of


class Reranker:
    """A head that scores pairs of query and passage (Nogueira and Cho 2019, https://arxiv.org/abs/1901.04085).

    A head of one number gives its output. A head of two classes gives the logit of the second over the first, so that
    the second class means relevant.

    Args:
      opened: Checkpoint with a head for sequences, and its tokenizer.
      batch_size: Pairs in a batch.
      max_length: Tokens of a pair; by default as many as the model reads, at most 512.

    Raises:
      ValueError: The checkpoint has no such head.
    """

    def __init__(self, opened: Checkpoint, *, batch_size: int = 32, max_length: int | None = None):
        task = traits_of(opened.config).task
        num_outputs = opened.config.num_labels if task == "sequence_classification" else 0
        if num_outputs not in (1, 2):
            raise ValueError(
                f"{opened.directory} has a head for {task or 'nothing'}"
                + (f" with {num_outputs} outputs" if num_outputs else "")
                + ", and a reranker scores pairs of texts by one number, or by two classes of which the second is "
                "relevant; train one on a table of queries, passages and labels (docs/guides/retrieval.md)"
            )
        predictor = checkpoint_predictor(opened, num_texts=2, batch_size=batch_size, inputs_length=max_length)
        assert isinstance(predictor, HeadRowPredictor)
        self._predictor = predictor

    def scores(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return a score for each pair of query and passage, float32 [N]; higher is more relevant.

        Raises:
          ValueError: A score is not finite.
        """
        if not pairs:
            return np.zeros(0, np.float32)
        predictor = self._predictor
        rows = [predictor.read({TEXT: query, "text_pair": text}) for query, text in pairs]
        questions = questions_of(
            predictor.definition, rows, inputs_length=predictor.inputs_length, tokenizer=predictor.tokenizer
        )
        outputs = np.stack(predictor.predictor.scores(predictor.params, questions)).astype(np.float32)
        scores = outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]
        if not np.isfinite(scores).all():
            raise ValueError(f"{predictor.definition.name} gives a score that is not finite; is it damaged?")
        return scores

    def rerank(
        self, queries: Sequence[str], results: Sequence[Sequence[RankedPassage]]
    ) -> list[list[RankedPassage]]:
        """Order the results of queries by the head's scores; of equal ones the order stays.

        Args:
          queries: Queries without a prompt.
          results: Results of each query.
        """
        pairs = [
            (query, result.passage.text)
            for query, of_query in zip(queries, results, strict=True)
            for result in of_query
        ]
        scores = iter(self.scores(pairs))
        return [sort_results(of_query, [next(scores) for _ in of_query]) for of_query in results]
