"""Checks that model, data, mesh and method of an experiment fit each other, before an accelerator is busy."""

import logging
from typing import Any

from jax.sharding import Mesh

from t5x_like.config_class import refuse_unused
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import (
    adapter_of,
    adapter_paths,
    attributes_of,
    num_virtual_tokens,
)
from t5x_like.model.model_traits import traits_of
from t5x_like.model.zoo.model_tasks import HEAD_TASKS, HEADLESS_TASKS
from t5x_like.partitioning.shard import check_batch_size, check_experts, check_sequence_length
from t5x_like.pretrained.initial_weights import check_head, check_length
from t5x_like.text.batches.loader import empty_row
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment
from t5x_like.training.losses.total import TOKEN_LOSSES
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.objective_checks import check_objectives
from t5x_like.training.repeat_loader import TrainingLoader
from t5x_like.training.speech_checks import check_speech
from t5x_like.training.training_data import ResolvedTasks

_log = logging.getLogger(__name__)

# Heads that learn from labels; candidates for a blank are scored by the output layer.
_LABEL_TASKS = tuple(task for task in HEAD_TASKS if task != "cloze")


def check_split(experiment: Experiment, tasks: TaskSet, mesh: Mesh) -> None:
    """Check that a mesh divides the rows of training batches, their lengths along ``context``, and the experts.

    Args:
      experiment: The configuration.
      tasks: Tasks to train on.
      mesh: Devices.

    Raises:
      ValueError: It doesn't; with the nearest sizes that it divides.
    """
    check_batch_size(experiment.data.train.batch_size // experiment.data.num_microbatches, mesh)
    for length in row_lengths(experiment, tasks) if mesh.shape["context"] > 1 else ():
        check_sequence_length(length, mesh)
    check_experts(traits_of(experiment.model).num_experts, mesh.shape["expert"])


def row_lengths(experiment: Experiment, tasks: TaskSet) -> list[int]:
    """Return the lengths of a training batch's streams: of the encoder, of the decoder, or of both.

    Args:
      experiment: The configuration.
      tasks: Tasks to train on.
    """
    row = empty_row(experiment.data.train, tasks)
    streams = (row.encoder_input_tokens, row.decoder_input_tokens)
    return [stream.shape[-1] for stream in streams if stream is not None]


def check_model(experiment: Experiment, tasks: ResolvedTasks, loader: TrainingLoader) -> None:
    """Check that the model has the head, the positions and the embeddings that data, start and method need.

    Args:
      experiment: Resolved configuration.
      tasks: Tasks of its training data and validations.
      loader: Loader of the training data.

    Raises:
      ValueError: it does not.
    """
    model: Any = experiment.model
    if loader.head is not None:
        what = f"mixture {experiment.data.train.mixture!r}"
        head = experiment.method.model_head(loader.head)
        adds_rows = head == loader.head and loader.num_rows_of_example > 1 and loader.label_loss is not None
        check_head(model, head, what=what, adds_rows=adds_rows)
        _check_unlabeled(experiment, tasks.train)
        _check_ranking(experiment, loader.head[0])
        _check_token_options(experiment, loader.head[0])
    elif traits_of(model).task in HEADLESS_TASKS and isinstance(experiment.method, Supervised):
        raise ValueError(
            f"mixture {experiment.data.train.mixture!r} has tokens to predict, and the model has no head; give it the "
            "task of a language model, such as 'causal_lm', 'masked_lm' or 'sequence_to_sequence_lm'"
        )
    elif traits_of(model).task in _LABEL_TASKS and not traits_of(model).keep_lm_head:
        raise ValueError(
            f"mixture {experiment.data.train.mixture!r} has tokens to predict, and the model has a head for "
            f"{model.task.replace('_', ' ')} alone; give the model the task of a language model, such as 'causal_lm', "
            "'masked_lm' or 'sequence_to_sequence_lm', or train it on labeled rows (gin/runs/finetune_head.gin)"
        )
    for each in (experiment.data.train, *experiment.data.validations):
        if each.layout == "encoder":
            check_length(model, each.inputs_length, what=f"mixture {each.mixture!r}")
        if num_virtual_tokens(model) and each.pack and not each.reads_heads:
            raise ValueError(
                f"mixture {each.mixture!r} puts several examples into a row (pack=True), but virtual tokens of "
                "PromptTuning belong to one; set pack=False (LoaderConfig.pack = False in a recipe)"
            )
        if each.pack and not each.reads_heads and not traits_of(model).can_pack:
            raise ValueError(
                f"mixture {each.mixture!r} puts several examples into a row (pack=True), but a row of "
                f"{type(model).__name__} is one example; set pack=False (LoaderConfig.pack = False in a recipe)"
            )
    _check_answers(experiment, loader)
    check_speech(traits_of(model), experiment.method, loader.streams, mixture=experiment.data.train.mixture)
    check_objectives(experiment, tasks)
    _check_attributes(experiment, attributes_of(model), tuple(loader.task_names))
    check_vocabulary(loader.vocabulary, model.vocab_size, needed=loader.num_ids)
    traits_of(model).check_vocabulary(loader.vocabulary)
    experiment.start.check(loader)
    _check_streams(experiment, loader)
    experiment.method.check(model, loader, experiment.data.train)


def _check_answers(experiment: Experiment, loader: TrainingLoader) -> None:
    """Check that ranked answers are compared, and that the reference of an adapter stays as it is.

    Raises:
      ValueError: The loss of targets would be learned from worse answers, too; or weights of the reference train.
    """
    method = experiment.method
    if loader.head is not None and loader.head[0] in HEADLESS_TASKS and not method.compares_texts:
        raise ValueError(
            f"mixture {experiment.data.train.mixture!r} has texts to compare, and {type(method).__name__} learns from "
            "labels; give method=Contrastive()"
        )
    is_ranked = loader.num_rows_of_example > 1 and loader.label_loss is None and loader.head is None
    if is_ranked and not method.compares_answers:
        raise ValueError(
            f"mixture {experiment.data.train.mixture!r} has ranked answers, and {type(method).__name__} would learn "
            "the worse ones as well as the best; give method=PreferenceOptimization(…), or train on the best "
            "answers by a TextTask with the same files"
        )
    shares_weights = any(each.directory is None for each in method.companions(experiment.model).values())
    model: Any = experiment.model
    if shares_weights and adapter_of(model) is not None:
        shapes = parameters.abstract(model)[1]
        trained = parameters.partition(shapes, parameters.select(shapes, experiment.trainable or ("*",)))[0]
        own = adapter_paths(model)
        others = sorted(parameters.flatten(trained).keys() - own)
        if others:
            raise ValueError(
                f"the reference is the model without its adapter, and trainable={experiment.trainable} trains "
                f"{others[0]!r} of it, too; train the adapter alone, or give reference=CHECKPOINT"
            )


def _check_streams(experiment: Experiment, loader: TrainingLoader) -> None:
    """Check that the data has the streams that the method reads.

    Raises:
      ValueError: It lacks one.
    """
    names = [field.name for field in loader.streams]
    for name in experiment.method.streams():
        if name not in names:
            raise ValueError(
                f"{type(experiment.method).__name__} reads the stream {name!r}, which mixture "
                f"{experiment.data.train.mixture!r} lacks; give its task streams={{{name!r}: COLUMN}}"
            )


def _check_unlabeled(experiment: Experiment, tasks: TaskSet) -> None:
    """Check that a model with a loss of rows without labels is given some, and warn of rows without a loss.

    Raises:
      ValueError: no task keeps such rows.
    """
    keeping = [name for name, each in tasks.head_formats.items() if each.keeps_unlabeled]
    setting = traits_of(experiment.model).unlabeled_loss
    if setting is not None and not keeping:
        raise ValueError(
            f"{setting} learns from rows without labels, and no task of mixture "
            f"{experiment.data.train.mixture!r} keeps them; add one whose head has keeps_unlabeled=True, or "
            "leave the setting out"
        )
    if keeping and setting is None and not experiment.method.learns_unlabeled:
        _log.warning(
            "mixture %s: %s keeps rows without labels (keeps_unlabeled=True), and the model has no loss of them, as "
            "in gin/recipes/comparisons/cross_view_training.gin; nothing is learned from these rows",
            experiment.data.train.mixture,
            ", ".join(keeping),
        )


def _check_ranking(experiment: Experiment, kind: str) -> None:
    """Check that a loss of candidates is given for candidates.

    Raises:
      ValueError: The head has none.
    """
    if experiment.method.loss.ranking is not None and kind != "cloze":
        raise ValueError(
            f"LossConfig.ranking compares candidates for a blank, as ReferentRanking reads them; mixture "
            f"{experiment.data.train.mixture!r} is for {kind}. Leave it out"
        )


def _check_token_options(experiment: Experiment, kind: str) -> None:
    """Check that options of the loss over target tokens are given for such a loss.

    Raises:
      ValueError: the head has one loss for each row, and there is no auxiliary language-model loss.
    """
    if kind in TOKEN_LOSSES or experiment.method.loss.auxiliary_lm_weight is not None:
        return
    refuse_unused(
        experiment.method.loss,
        "label_smoothing",
        "logits_chunk_length",
        because=f"the loss of {kind} is over rows, and this is for target tokens",
    )


def _check_attributes(
    experiment: Experiment, attributes: tuple[str, ...], task_names: tuple[str, ...]
) -> None:
    """Check that the numbers of tasks are those of a model's attributes, and that each row has one of them."""
    if not attributes:
        return
    if attributes != task_names:
        raise ValueError(
            f"ContrastivePrefixes has attributes={attributes}, and the tasks of mixture "
            f"{experiment.data.train.mixture!r} are {task_names}; give these names in this order"
        )
    for each in (experiment.data.train, *experiment.data.validations):
        if each.pack or each.mixture != experiment.data.train.mixture:
            raise ValueError(
                f"mixture {each.mixture!r} with pack={each.pack}: rows of ContrastivePrefixes have one attribute, the "
                f"number of their task; set pack=False, and validate on {experiment.data.train.mixture!r} itself"
            )


def check_vocabulary(vocabulary: object, vocab_size: int, *, needed: int | None = None) -> None:
    """Check that the embedding has a row for each token id, and otherwise at most padding to a multiple of 128.

    Args:
      vocabulary: Tokenizer of the data.
      vocab_size: Number of embedding rows.
      needed: Number of rows that the data needs, which for heads excludes sentinels; None for all ids.

    Raises:
      ValueError: They don't match.
    """
    num_ids = vocabulary.vocab_size  # pyright: ignore[reportAttributeAccessIssue]
    padded = -(-num_ids // 128) * 128
    if not (num_ids if needed is None else needed) <= vocab_size <= padded:
        raise ValueError(
            f"the vocabulary has {num_ids} ids, sentinels included, but the model has {vocab_size} embedding rows; "
            f"set the model's vocab_size to {num_ids}, or to {padded} (a multiple of 128) for even sharding"
        )
