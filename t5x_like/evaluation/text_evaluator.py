"""Text predictions for one task, batch by batch: generated, or the most likely of the task's labels."""

import functools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.evaluation.prompts import Prompter
from t5x_like.evaluation.questions import Question, Questions
from t5x_like.evaluation.scores import score_questions
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.evaluation.task_evaluators import TaskEvaluator
from t5x_like.evaluation.text_model import EncodedPrompt, TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.inference.length_batches import length_batches
from t5x_like.inference.scorer import LikelihoodRequest
from t5x_like.model.parameters import Parameters
from t5x_like.text.templates import RowValues

Normalization = Literal["none", "tokens", "bytes"]

_LONGEST_ANSWER = 64  # tokens, for open answers
_LONGEST_NUMBER = 8


def answer_length(model: TextModel, questions: Questions) -> int:
    """Return the number of tokens to generate: the longest label with its end of sequence, or a default.

    Args:
      model: Model that generates.
      questions: Questions of a task.
    """
    if questions.is_number:
        return _LONGEST_NUMBER
    if not questions.labels:
        return _LONGEST_ANSWER
    return max(map(len, model.tokenizer.encode_all([" " + label for label in questions.labels]))) + 2


@dataclass(frozen=True, kw_only=True)
class TextEvaluator(TaskEvaluator):
    """Rows of one task and the text model that predicts them.

    Attributes:
      model: The model.
      questions: The rows.
      prompter: Makes prompts.
      method: "generate" or "rank".
      prompt_length: Tokens of a prompt, special ids included.
      batch_size: Prompts in a batch.
      generation: Decoding settings.
      target_length: Tokens of an answer whose likelihood is computed.
      normalization: Length that divides the log-likelihoods of ranked labels.
      scores_targets: Compute the target's log-likelihood next to a generated answer.
      one_line: Take only the first generated line, for decoders that were not trained on the task.
    """

    model: TextModel
    questions: Questions
    prompter: Prompter
    method: Literal["generate", "rank"]
    prompt_length: int
    batch_size: int
    generation: GenerationConfig
    target_length: int
    normalization: Normalization = "none"
    scores_targets: bool = False
    one_line: bool = False

    def __post_init__(self) -> None:
        if self.method == "rank" and not self.questions.labels:
            raise ValueError(
                f"task {self.questions.task!r} does not say which answers there are; give it labels, or use "
                "method='generate'"
            )

    @property
    def inputs(self) -> dict[int, str]:
        """Input texts by row number."""
        return {row.number: row.inputs for row in self.questions.rows}

    @property
    def source_rows(self) -> list[RowValues]:
        """Fields of the rows as their files have them, including the test set's index ("idx")."""
        return [row.example for row in self.questions.rows]

    @functools.cached_property
    def _prompts(self) -> list[EncodedPrompt]:
        rows = self.questions.rows
        if self.questions.max_samples is not None:
            return [EncodedPrompt(row.recording, row.inputs) for row in rows if row.recording is not None]
        encoded = [(row.input_ids, row.inputs) for row in rows if row.input_ids is not None]
        if encoded:
            begin = self.model.prompt_encoder.prefix_ids
            return [EncodedPrompt(np.array([*begin, *ids], np.int32), text) for ids, text in encoded]
        prompts = [self.prompter.prompt(row.number, row.inputs) for row in rows]
        return self.model.encode_prompts(self.prompter, prompts, length=self.prompt_length)

    def answer(self, params: Parameters, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yield rows of ``predictions.jsonl``, one list for each batch; see ``TaskEvaluator.answer``.

        Batches hold inputs of similar length and don't depend on interruptions.
        """
        batches = [
            indices
            for indices in length_batches([len(prompt.ids) for prompt in self._prompts], self.batch_size)
            if any(self.questions.rows[index].number not in answered for index in indices)
        ]
        answer_batches = self._rank if self.method == "rank" else self._generate
        for indices, answers in zip(batches, answer_batches(params, batches), strict=True):
            yield [
                self._record(
                    self.questions.rows[index],
                    answer | {"cut": self._prompts[index].cut, "dropped": self._prompts[index].dropped},
                )
                for index, answer in zip(indices, answers, strict=True)
            ]

    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """Return the task's entry in ``scores.json``; see ``TaskEvaluator.score``."""
        return score_questions(self.questions, rows, resamples=resamples)

    def _record(self, row: Question, answer: Row) -> Row:
        """Build one row of ``predictions.jsonl``."""
        kept = {
            name: value
            for name, value in row.example.items()
            if name in ("idx", "references") or name.startswith("idx/")
        }
        record = {
            "task": self.questions.task,
            "number": row.number,
            **kept,
            "input": row.inputs,
            "target": row.targets if self.questions.is_labeled(row) else None,
            **answer,
        }
        return record | {"answer": self.questions.postprocess_answer(row, answer["prediction"])}

    def _generate(
        self, params: Parameters, batches: Sequence[Sequence[int]]
    ) -> Iterator[list[dict[str, object]]]:
        """Yield the answers of each batch once all of its texts are written."""
        indices = [index for batch in batches for index in batch]
        written = self.model.generate(
            params,
            [self._prompts[index].ids for index in indices],
            self.generation,
            batch_size=self.batch_size,
            limit=self.prompt_length,
            stop_ids=self._newline if self.one_line else (),
        )
        texts: dict[int, str] = {}
        for batch in batches:
            while not texts.keys() >= {*batch}:
                place, text = next(written)
                texts[indices[place]] = text
            yield self._with_likelihoods(params, batch, [texts[index] for index in batch])

    def _with_likelihoods(
        self, params: Parameters, indices: Sequence[int], texts: Sequence[str]
    ) -> list[dict[str, object]]:
        rows = [self.questions.rows[index] for index in indices]
        prompts = [self._prompts[index] for index in indices]
        if self.one_line:
            texts = [text.strip().partition("\n")[0].strip() for text in texts]
        if not self.scores_targets:
            return [{"prediction": text} for text in texts]
        targets = [row.targets if self.questions.is_labeled(row) else None for row in rows]
        likelihoods: Sequence[float | None] = [None] * len(rows)
        if any(target is not None for target in targets):
            target_likelihoods = self._likelihoods(
                params, rows, prompts, [target or "" for target in targets]
            )
            likelihoods = [
                None if target is None else value
                for target, value in zip(targets, target_likelihoods.tolist(), strict=True)
            ]
        return [
            {"prediction": text, "log_likelihood": value}
            for text, value in zip(texts, likelihoods, strict=True)
        ]

    def _rank(
        self, params: Parameters, batches: Sequence[Sequence[int]]
    ) -> Iterator[list[dict[str, object]]]:
        for batch in batches:
            yield self._rank_batch(
                params,
                [self.questions.rows[index] for index in batch],
                [self._prompts[index] for index in batch],
            )

    def _rank_batch(
        self, params: Parameters, rows: Sequence[Question], prompts: Sequence[EncodedPrompt]
    ) -> list[dict[str, object]]:
        labels = self.questions.labels
        scores = np.zeros((len(rows), len(labels)))
        sizes = np.ones_like(scores)
        for column, label in enumerate(labels):
            requests = self.model.requests(
                prompts,
                [label] * len(rows),
                length=self.target_length,
                separator=self.prompter.style.answer_separator,
            )
            scores[:, column] = self._score(params, requests)
            if self.normalization == "tokens":
                sizes[:, column] = [max(len(request.target), 1) for request in requests]
            elif self.normalization == "bytes":
                sizes[:, column] = len(label.encode("utf-8"))
        compared = np.nan_to_num(scores / sizes, nan=-np.inf, neginf=-np.inf)
        answers = []
        for row, likelihoods, best in zip(
            rows, scores.tolist(), np.argmax(compared, axis=1).tolist(), strict=True
        ):
            choices = dict(zip(labels, likelihoods, strict=True))
            answers.append(
                {
                    "prediction": "" if math.isnan(likelihoods[best]) else labels[best],
                    "log_likelihood": choices.get(row.targets),
                    "choices": choices,
                }
            )
        return answers

    def _likelihoods(
        self,
        params: Parameters,
        rows: Sequence[Question],
        prompts: Sequence[EncodedPrompt],
        targets: Sequence[str],
    ) -> np.ndarray:
        requests = self.model.requests(
            prompts, targets, length=self.target_length, separator=self.prompter.style.answer_separator
        )
        answer_requests = [
            request if row.target_ids is None else request._replace(target=row.target_ids)
            for row, request in zip(rows, requests, strict=True)
        ]
        return self._score(params, answer_requests)

    def _score(self, params: Parameters, requests: Sequence[LikelihoodRequest]) -> np.ndarray:
        scored = self.model.score(params, requests, batch_size=self.batch_size, limit=self.prompt_length)
        return scored.log_likelihoods

    @functools.cached_property
    def _newline(self) -> tuple[int, ...]:
        """Id of a line break, at which a decoder that answers in one line can stop."""
        (ids,) = self.model.tokenizer.encode_all(["\n"])
        return tuple(ids) if len(ids) == 1 else ()
