"""Rollouts: the trained model answers a batch of prompts, the answers are rewarded, and become rows to learn from."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from t5x_like.batch import Batch, DeclaredStreams
from t5x_like.inference.length_batches import place_rows
from t5x_like.message_sentences import sentence
from t5x_like.model import parameters
from t5x_like.model.families.family import can_decode, predict
from t5x_like.model.heads import VALUE, can_defer_logits, defer_logits
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import check_batch_size, replicated
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.companions import Companion, frozen_models, own_params
from t5x_like.training.losses.answer_pairs import token_logps
from t5x_like.training.methods.on_policy import OnPolicyMethod
from t5x_like.training.methods.reference_method import REFERENCE
from t5x_like.training.microbatches import Microbatch
from t5x_like.training.repeat_loader import RepeatLoader
from t5x_like.training.rollouts.answer_rows import ANSWER_POSITIONS, repeat_rows
from t5x_like.training.rollouts.answer_writer import AnswerWriter, WrittenAnswers, end_of_answers
from t5x_like.training.rollouts.rewards import summed_rewards
from t5x_like.training.rollouts.rollout import Rollout
from t5x_like.training.rollouts.rollout_files import RolloutFiles
from t5x_like.training.state import State, StateLayout
from t5x_like.training.training_data import TrainingData, open_share

LOG_KL_FACTOR = "log_kl_factor"
_ORDER = 0x0A26  # part of the seed of the order in which answers are learned


class Rollouts:
    """Turns each batch of prompts into rows of answers, for the steps that learn from them.

    Args:
      method: The method, with its rewards.
      plan: Layout of the state.
      mesh: Devices.
      train: Configuration of the loader of prompts.
      tasks: Tasks of the mixture.
      tokenizer: Vocabulary of the prompts.
      companions: The reference, if the method has one.
      num_microbatches: Parts of a step; as many rows are generated and scored at once.
      seed: Seed of the run.
      model_dir: Folder of the run.

    Raises:
      ValueError: The model writes no texts, a reward can't be opened, or answers have no end.
    """

    def __init__(
        self,
        method: OnPolicyMethod,
        plan: StateLayout,
        mesh: Mesh,
        *,
        train: LoaderConfig,
        tasks: TaskSet,
        tokenizer: Any,
        companions: Mapping[str, Companion],
        num_microbatches: int,
        seed: int,
        model_dir: str,
    ) -> None:
        self._method, self._plan, self._mesh = method, plan, mesh
        self._seed, self._files = seed, RolloutFiles(model_dir)
        self._rewards = [(reward, reward.open()) for reward in method.rewards]
        self._supervised = [tasks.names.index(name) for name in method.supervised_tasks]
        self._rows_at_once = train.batch_size // num_microbatches
        model = parameters.merge(plan.graphdef, plan.weights(plan.abstract))
        if not can_decode(model):
            raise ValueError(
                f"{type(method).__name__} needs a model that writes texts, such as a GPT-2 or a T5; this one doesn't"
            )
        self._write = AnswerWriter(
            plan.graphdef,
            mesh,
            train=train,
            tokenizer=tokenizer,
            end_id=end_of_answers(tasks, tokenizer),
            supervised=self._supervised,
            # A supervised target may be longer than an answer.
            marks_positions=train.layout == "decoder" and not self._supervised and can_defer_logits(model),
            rows_at_once=self._rows_at_once,
            seed=seed,
        )
        self._frozen = own_params(companions)
        self._score = jax.jit(self._scoring(companions), out_shardings=replicated(mesh))
        self._minibatches: list[Batch] = []
        self._begun: int | None = None  # steps done before the present answers

    def __call__(self, step: int, state: State, prompts: Batch) -> tuple[State, Batch]:
        """Return the rows that a step learns from, on the mesh, and the state with the method's numbers.

        Args:
          step: Steps done before.
          state: State before the step.
          prompts: The step's batch of prompts.
        """
        begun, index = step - step % self._method.steps_of_rollout, step % self._method.steps_of_rollout
        if index and self._begun != begun:
            self._minibatches = self._parts(self._files.read(begun), begun)
        if not index:
            rows, log_kl_factor = self._rows_to_learn(step, state, prompts)
            self._minibatches = self._parts(rows, begun)
            if self._method.steps_of_rollout > 1:
                self._files.write(begun, rows)
            if "method" in state:
                number = jax.device_put(np.float32(log_kl_factor), replicated(self._mesh))
                state = state | {"method": {**state["method"], LOG_KL_FACTOR: number}}
        self._begun = begun
        return state, Batch(*place_rows(self._minibatches[index], self._mesh))

    def _rows_to_learn(self, step: int, state: State, placed: Batch) -> tuple[Batch, float]:
        """Return all answers to prompts as rows with the streams that the loss reads, and the next factor of KL."""
        method, weights = self._method, self._plan.weights(self._plan.at_gradients(state))
        batch = repeat_rows(_on_host(placed), method.num_answers)
        answers = self._write(step, weights, batch)
        rewards = np.full(len(answers.texts), np.nan, np.float32)
        chosen = np.flatnonzero(answers.is_prompt)
        rewards[chosen] = self._reward(step, *([each[index] for index in chosen] for each in answers[1:4]))
        rollout = self._scored(state, weights, answers, rewards)
        interval = method.keep_samples_every_steps
        if interval and step % interval < method.steps_of_rollout:
            self._files.write_samples(step, answers.prompts, answers.texts, rollout)
        learned = rollout.mask * rollout.is_rewarded[:, None]
        if not method.learns_cut_answers:
            learned = learned * ~answers.is_cut[:, None]
        groups = np.nan_to_num(rewards, nan=np.inf).reshape(-1, method.num_answers)
        is_equal = (groups == groups[:, :1]).all(axis=1) & (method.num_answers > 1)
        token = {
            "learned": learned,
            **{name: np.array(each, np.float32) for name, each in method.streams_of(rollout).items()},
        }
        if method.needs_old_logps:
            assert rollout.logps is not None, "the method needs log-probabilities"
            token["old_logps"] = rollout.logps
        if rollout.reference_logps is not None:
            token["reference_logps"] = rollout.reference_logps
        if self._supervised:
            token["supervised_weights"] = batch.loss_weights * ~answers.is_prompt[:, None]
        row = {
            **_row_streams(answers.rows),
            "reward": rewards,
            "is_cut": answers.is_cut.astype(np.float32),
            "has_equal_rewards": np.repeat(is_equal, method.num_answers).astype(np.float32),
        }
        if method.needs_logps or not method.has_reference:  # the loss computes it otherwise
            row["answer_kl"] = rollout.kl
        rows = answers.rows._replace(declared=DeclaredStreams(token=token, row=row))
        return rows, method.next_log_kl_factor(rollout)

    def _reward(self, step: int, prompts: list[str], texts: list[str], targets: list[str]) -> np.ndarray:
        """Return the reward of each answer; process 0 asks for all, so that a judge is asked once."""
        rewards, message = np.zeros(len(texts), np.float32), ""
        if jax.process_index() == 0:
            try:
                rewards = summed_rewards(self._rewards, prompts, texts, targets)
                if len(rewards) and not np.isfinite(rewards).any():
                    message = "all rewards are not-a-number, so that nothing can be learned"
            except ValueError as error:
                message = str(error)
        if jax.process_count() > 1:
            failed = bool(multihost_utils.broadcast_one_to_all(np.bool_(message)))
            message = message or ("process 0 could not reward the answers" if failed else "")
            rewards = np.asarray(multihost_utils.broadcast_one_to_all(rewards))
        if message:
            raise ValueError(
                f"step {step + 1}: {sentence(message)} Saved steps are kept; the same command continues from the newest"
            )
        return rewards

    def _scored(
        self, state: State, weights: Parameters, answers: WrittenAnswers, rewards: np.ndarray
    ) -> Rollout:
        """Return answers with their log-probabilities under model and reference, and values."""
        method, mask = self._method, answers.rows.loss_weights
        scores: dict[str, list[np.ndarray]] = {}
        if method.needs_logps or method.has_reference:
            for start in range(0, len(mask), self._rows_at_once):
                part = answers.rows.map(lambda _, stream: stream[start:][: self._rows_at_once])  # noqa: B023
                for name, each in self._score(weights, self._frozen, place_rows(part, self._mesh)).items():
                    scores.setdefault(name, []).append(np.asarray(each))
        whole: dict[str, np.ndarray] = {name: np.concatenate(parts) for name, parts in scores.items()}
        return Rollout(
            mask,
            rewards,
            method.num_answers,
            whole.get("logps"),
            whole.get("reference_logps"),
            whole.get("values"),
            float(state["method"][LOG_KL_FACTOR]) if "method" in state else 0.0,
        )

    def _scoring(
        self, companions: Mapping[str, Companion]
    ) -> Callable[[Parameters, Mapping[str, Parameters], Batch], dict[str, jax.Array]]:
        """Return the function that computes log-probabilities and values of tokens, [B, L]."""
        plan, method = self._plan, self._method
        chunk = method.loss.logits_chunk_length

        def score(
            weights: Parameters, frozen: Mapping[str, Parameters], batch: Batch
        ) -> dict[str, jax.Array]:
            positions = _row_streams(batch).get(ANSWER_POSITIONS)
            defers = chunk is not None or positions is not None
            scores = {}
            if method.needs_logps:
                model = parameters.merge(plan.graphdef, weights)
                if defers:
                    defer_logits(model)
                predictions = predict(model, batch)
                scores["logps"] = token_logps(predictions, batch, chunk, positions=positions)
                if method.has_value_head and predictions.heads is not None:
                    scores["values"] = predictions.heads[VALUE][..., 0]
            if method.has_reference:
                reference = frozen_models(companions, frozen, weights)[REFERENCE]
                rows = Microbatch(batch, jnp.zeros(()), {})
                predictions = reference.predict(rows, defers_logits=defers)
                scores["reference_logps"] = token_logps(predictions, batch, chunk, positions=positions)
            return scores

        return score

    def _parts(self, rows: Batch, begun: int) -> list[Batch]:
        """Return the rows of each step, with the weights of their tokens; each epoch has an order of its own."""
        method, num_rows = self._method, len(rows.loss_weights)
        parts: list[Batch] = []
        for epoch in range(method.num_epochs):
            order = np.arange(num_rows)
            if method.steps_of_rollout > 1:
                order = np.random.default_rng((self._seed, _ORDER, begun, epoch)).permutation(num_rows)
            for chosen in np.split(order, method.num_minibatches):
                part = rows.map(lambda _, stream: stream[chosen])  # noqa: B023
                assert part.declared is not None
                token = dict(part.declared.token)
                token["policy_weights"] = method.weights_of(token.pop("learned"), self._write.max_length)
                if "supervised_weights" in token:
                    weights = token["supervised_weights"]
                    token["supervised_weights"] = weights / max(float(weights.sum()), 1.0)
                parts.append(part._replace(declared=part.declared._replace(token=token)))
        return parts


def open_prompts(
    method: OnPolicyMethod, data: TrainingData, tasks: TaskSet, mesh: Mesh
) -> Loader | RepeatLoader:
    """Return the loader of this process' prompts, each batch of which all steps of a rollout get.

    Args:
      method: The method.
      data: The data of the run.
      tasks: Tasks of ``data.train``.
      mesh: Devices.

    Raises:
      ValueError: The data can't be read, batches grow, or the mesh doesn't divide the prompts.
    """
    if data.batch_size_ramp is not None:
        raise ValueError(
            f"batch_size_ramp with {type(method).__name__}, whose answers fill each batch; leave it out"
        )
    prompts = replace(data.train, batch_size=method.num_prompts(data.train.batch_size))
    try:
        check_batch_size(prompts.batch_size, mesh)
    except ValueError as error:
        raise ValueError(
            f"batch_size={data.train.batch_size} by num_minibatches={method.num_minibatches} and num_answers="
            f"{method.num_answers} are {prompts.batch_size} prompts at once, and {error}"
        ) from None
    loader = open_share(prompts, tasks, mesh)
    return loader if method.steps_of_rollout == 1 else RepeatLoader(loader, method.steps_of_rollout)


def _row_streams(batch: Batch) -> Mapping[str, Any]:
    return batch.declared.row if batch.declared is not None else {}


def _on_host(batch: Batch) -> Batch:
    """Return all rows of a batch as NumPy arrays, on every process."""
    if jax.process_count() == 1:
        return batch.map(lambda _, stream: np.asarray(stream))
    return batch.map(lambda _, stream: np.asarray(multihost_utils.process_allgather(stream, tiled=True)))


def give_rollouts(
    steps: Mapping[int, Callable[[State, Batch], State]], rollouts: Rollouts
) -> Mapping[int, Callable[[State, Batch], State]]:
    """Return steps ``(state, prompts) -> state`` that learn from answers to the prompts.

    Args:
      steps: Steps that learn from rows of answers, by the number of the first step of each stage.
      rollouts: Writes and rewards the answers.
    """

    def with_answers_to(compiled: Callable[[State, Batch], State]) -> Callable[[State, Batch], State]:
        def step(state: State, prompts: Batch) -> State:
            state, rows = rollouts(int(state["step"]), state, prompts)
            return compiled(state, rows)

        return step

    return {start: with_answers_to(compiled) for start, compiled in steps.items()}
