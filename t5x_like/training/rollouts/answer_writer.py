"""Answers of a model to the prompts of a batch, drawn from the seed and the step alone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from t5x_like.batch import Batch, DeclaredStreams
from t5x_like.inference.generator import GenerationConfig, Generator
from t5x_like.model.parameters import Parameters
from t5x_like.text.batches.batch_layout import SHIFTED_IN
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.rollouts.answer_rows import ANSWER_POSITIONS, PromptRows, prompts_of, with_answers

_DRAWS = 0x0A25  # folded into the run's key, so that draws of answers differ from those of dropout


class WrittenAnswers(NamedTuple):
    """Answers to a batch of prompts, as texts and rows.

    Attributes:
      rows: Rows of the answers [N, L], as NumPy arrays.
      prompts: Text of each answer's prompt.
      texts: Texts of the answers.
      targets: Text of each prompt's own target.
      is_cut: True for answers without an end, bool [N].
      is_prompt: False for rows without a prompt, whose answers are empty, bool [N].
    """

    rows: Batch
    prompts: list[str]
    texts: list[str]
    targets: list[str]
    is_cut: np.ndarray
    is_prompt: np.ndarray


def end_of_answers(tasks: TaskSet, tokenizer: Any) -> int:
    """Return the id that ends an answer: the end of sequence, or that of a chat template.

    Args:
      tasks: Tasks of the prompts.
      tokenizer: Their vocabulary.

    Raises:
      ValueError: There is none, or tasks have different ones.
    """
    ends = {
        name: task.answer_end if isinstance(task, ChatTask) else tokenizer.special.eos
        for name, task in tasks.tasks.items()
    }
    if None in ends.values():
        raise ValueError(f"{tokenizer} has no end of sequence, at which an answer could stop")
    if len(set(ends.values())) > 1:
        listed = ", ".join(f"{name} by id {end}" for name, end in ends.items())
        raise ValueError(f"tasks end their answers differently: {listed}; give them one end")
    return next(iter(ends.values()))


class AnswerWriter:
    """Writes answers to prompts by sampling.

    Args:
      graphdef: Structure of the model.
      mesh: Devices.
      train: Configuration of the loader of prompts, whose lengths limit the answers.
      tokenizer: Vocabulary of the prompts.
      end_id: Id that ends an answer.
      supervised: Indices of tasks whose rows are no prompts.
      marks_positions: Rows get the positions of their answers, whose logits alone a decoder computes.
      rows_at_once: Answers that are written together.
      seed: Seed of the run.

    Attributes:
      max_length: The most tokens of an answer, its end included.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        mesh: Mesh,
        *,
        train: LoaderConfig,
        tokenizer: Any,
        end_id: int,
        supervised: Sequence[int],
        marks_positions: bool,
        rows_at_once: int,
        seed: int,
    ) -> None:
        is_decoder = train.layout == "decoder"
        self.max_length = train.targets_length - (train.inputs_length if is_decoder else 0)
        self._end, self._tokenizer = end_id, tokenizer
        self._generate = Generator(graphdef, mesh, is_decoder=is_decoder, start_id=SHIFTED_IN)
        self._inputs_length, self._rows_at_once = train.inputs_length, rows_at_once
        self._supervised, self._seed = supervised, seed
        self._marks_positions = marks_positions

    def __call__(self, step: int, weights: Parameters, batch: Batch) -> WrittenAnswers:
        """Return the model's answers to the prompts of a batch.

        Args:
          step: Steps done before, of which the draws depend.
          weights: The model's weights, on the mesh.
          batch: Rows of prompts, as NumPy arrays.
        """
        prompts = prompts_of(batch)
        is_prompt = np.array([bool(len(ids)) for ids in prompts.ids])
        if self._supervised:
            assert batch.task_ids is not None
            of_row = np.max(batch.task_ids, axis=1)
            is_prompt &= ~np.isin(of_row, self._supervised)
        config = GenerationConfig(max_new_tokens=self.max_length, temperature=1.0)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self._seed), _DRAWS), step)
        answers = self._generate(
            weights,
            [each if len(each) else np.zeros(1, np.int32) for each in prompts.ids],
            config,
            end_ids=(self._end,),
            batch_size=self._rows_at_once,
            limit=self._inputs_length + 1,
            key=key,
        )
        written = [ids for _, ids in sorted(answers)]
        # A conversation may leave less room in its row.
        room = np.minimum(self.max_length, batch.target_tokens.shape[1] - prompts.starts)
        written = [ids[:most] for ids, most in zip(written, room.tolist(), strict=True)]
        is_cut = np.array([len(ids) for ids in written]) == room
        is_cut &= is_prompt
        ended = [
            [] if not real else ids if cut else [*ids, self._end]
            for ids, cut, real in zip(written, is_cut, is_prompt, strict=True)
        ]
        rows = with_answers(batch, prompts.starts, ended)
        if self._marks_positions:
            positions = prompts.starts[:, None] + np.arange(self.max_length)
            positions = np.minimum(positions, batch.target_tokens.shape[1] - 1).astype(np.int32)
            rows = rows._replace(declared=DeclaredStreams(row={ANSWER_POSITIONS: positions}))
        if self._supervised:  # which keep the targets that they came with
            rows = rows.map(
                lambda field, stream: np.where(
                    is_prompt.reshape(-1, *(1,) * (stream.ndim - 1)), stream, getattr(batch, field.name)
                )
            )
            rows = rows._replace(loss_weights=rows.loss_weights * is_prompt[:, None])
        return WrittenAnswers(
            rows, *self._texts(prompts, written, begins=batch.prefix is not None), is_cut, is_prompt
        )

    def _texts(
        self, prompts: PromptRows, written: Sequence[Sequence[int]], *, begins: bool
    ) -> tuple[list[str], list[str], list[str]]:
        """Return prompts, answers and targets as texts, without the ids around them."""
        around = {self._end, self._tokenizer.special.pad}

        def decode(ids: Sequence[int] | np.ndarray) -> str:
            return self._tokenizer.decode([int(each) for each in ids if int(each) not in around])

        # A decoder with a prefix reads an id before it.
        read = [ids[1:] if begins else ids for ids in prompts.ids]
        return [*map(decode, read)], [*map(decode, written)], [*map(decode, prompts.targets)]
