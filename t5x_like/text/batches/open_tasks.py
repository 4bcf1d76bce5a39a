"""Opening of tasks as sources of examples."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from t5x_like.io.paths import find_files
from t5x_like.text.batches.answer_sources import ChatPreferenceSource, MismatchedSource, PreferenceSource
from t5x_like.text.batches.example_sources import (
    ChatSource,
    DecoderSource,
    ExampleMaker,
    ExampleSource,
    MaskedTargetSource,
    OpenedTask,
    OpenedTasks,
    PairSource,
    ReferenceSource,
)
from t5x_like.text.batches.in_memory import (
    ExampleStore,
    TooManyTokens,
    first_examples,
    first_tokens,
    load_in_memory,
)
from t5x_like.text.batches.labeled_source import open_head_task
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.pretraining_source import PretrainingSource
from t5x_like.text.batches.recurrent_source import RecurrentSource
from t5x_like.text.batches.speech_pretraining_source import open_speech_pretraining
from t5x_like.text.batches.speech_source import open_speech_task
from t5x_like.text.cache.cache_manifest import read_manifest
from t5x_like.text.cache.fingerprint import task_fingerprint
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.fields import ANSWER_ENDS, REFERENCE_ENDS
from t5x_like.text.objectives.objective import ExampleSpec, Lengths
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.foreign_tasks import ForeignTask
from t5x_like.text.tasks.pairs import PAIRS, PairsTask
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.speech_pretraining_task import SpeechPretrainingTask
from t5x_like.text.tasks.speech_task import SpeechTask
from t5x_like.text.tasks.task_set import Task, TaskSet
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

_log = logging.getLogger(__name__)


def open_tasks(config: LoaderConfig, tasks: TaskSet, *, compare_files: bool = True) -> OpenedTasks:
    """Open the tasks of a loader that have its split.

    Args:
      config: Configuration of the loader.
      tasks: Tasks of the mixture that ``config`` names.
      compare_files: Whether caches are compared with their source files, which reads these.

    Raises:
      ValueError: No such split, bad rows, lengths that don't fit, or tasks that can't share a batch.
    """
    tasks_with_split, rates = tasks.with_split(config.split), _rates(config, tasks)
    names = tasks_with_split.names
    opened = [
        _as_layout(_open_task(task, tasks, config, compare_files), config)
        for task in tasks_with_split.tasks.values()
    ]
    vocabulary = _common_vocabulary([task.vocabulary for task in opened], names)
    return OpenedTasks(
        names,
        [task.source for task in opened],
        [rate / sum(rates) for rate in rates],
        _common([task.spec for task in opened], names),
        vocabulary,
        ids_of(vocabulary),
    )


def _common_vocabulary(vocabularies: Sequence[object], names: Sequence[str]) -> object:
    """Return the vocabulary of all tasks; for a seqio vocabulary that wraps one of our tokenizers, the tokenizer."""
    tokenizers = [getattr(vocabulary, "core", vocabulary) for vocabulary in vocabularies]
    for name, tokenizer in zip(names, tokenizers, strict=True):
        if tokenizer != tokenizers[0]:
            raise ValueError(
                f"task {name!r} has another vocabulary ({tokenizer}) than {names[0]!r} ({tokenizers[0]}); a run has one"
            )
    return tokenizers[0]


def _rates(config: LoaderConfig, tasks: TaskSet) -> list[float]:
    """Return the rates of the tasks that have the split; with ``repeat=False`` all are equal."""
    with_split = tasks.with_split(config.split)
    if not config.repeat or len(tasks.tasks) == 1:
        return [1.0] * len(with_split.tasks)
    return with_split.rates(None if config.cache is None else partial(_num_cached, config.cache))


def spec_of_tasks(config: LoaderConfig, tasks: TaskSet) -> ExampleSpec:
    """Return the common properties of the tasks' examples from their definitions: no file is read.

    Args:
      config: Configuration of the loader.
      tasks: Tasks of the mixture that ``config`` names.

    Raises:
      ValueError: Tasks that can't share a batch.
    """
    return _common([_spec_of(task, config) for task in tasks.tasks.values()], tasks.names)


def _spec_of(task: Task, config: LoaderConfig) -> ExampleSpec:
    if config.reads_heads and not task.is_pretraining:
        head_format = task.head_format()
        framing = getattr(task, "framing", None)
        in_both_orders = framing is not None and framing.both_orders and head_format.is_pair
        spec = head_format.spec(2 if in_both_orders else head_format.usual_num_choices)
        return spec.with_streams(task.declared_streams)
    spec = task.spec
    if config.masked_targets is not None and spec.layout == PAIRS.layout and spec.fields == PAIRS.fields:
        return config.masked_targets.spec.with_streams(spec.streams)
    if config.layout == "decoder" and spec.layout != "decoder":
        return DecoderSource.spec_for(config.prefix_attention, spec)
    return spec


def _open_task(task: Task, tasks: TaskSet, config: LoaderConfig, compare_files: bool) -> OpenedTask:
    if config.reads_heads and not task.is_pretraining:
        return open_head_task(task, config)
    if isinstance(task, SpeechTask):
        return open_speech_task(task, config)
    if isinstance(task, SpeechPretrainingTask):
        return open_speech_pretraining(task, config)
    if config.cache is not None:
        return open_cached_task(task, config, config.cache, compare_files=compare_files)
    if isinstance(task, ForeignTask):
        return task.open(config)
    try:
        stored = load_in_memory(
            task.as_trained(), config.split, max_tokens_in_memory=config.max_tokens_in_memory
        )
    except TooManyTokens:
        if getattr(task, "max_tokens", None) is not None:
            raise ValueError(
                f"task {task.name!r} has max_tokens, and over {config.max_tokens_in_memory} tokens in all, which are "
                "read as a stream; write a cache with t5x-like cache, or raise LoaderConfig.max_tokens_in_memory"
            ) from None
        if {REFERENCE_ENDS, ANSWER_ENDS} & {*task.features()}:
            raise ValueError(
                f"task {task.name!r} has several answers in each row, and over {config.max_tokens_in_memory} tokens, "
                "which are read as a stream; write a cache with t5x-like cache, or raise "
                "LoaderConfig.max_tokens_in_memory"
            ) from None
        if task.declared_streams:
            listed = ", ".join(field.name for field in task.declared_streams)
            raise ValueError(
                f"task {task.name!r} has streams ({listed}), and over {config.max_tokens_in_memory} tokens, "
                "which are read as a stream of texts; write a cache with t5x-like cache, or raise "
                "LoaderConfig.max_tokens_in_memory"
            ) from None
        stream = f"task {task.name!r} has over {config.max_tokens_in_memory} tokens; to read it as a stream"
        opened = tasks.stream_library(stream).open_stream(task.name, task.spec, config)
        _log.warning(
            "task %s: over %d tokens, read as a stream and not from memory; after t5x-like cache, a restart needn't "
            "replay the stream",
            task.name,
            config.max_tokens_in_memory,
        )
        return opened
    return open_stored(task, stored, task.tokenizer, config)


def open_cached_task(
    task: Task, config: LoaderConfig, cache: str, *, compare_files: bool = True
) -> OpenedTask:
    """Open a task whose tokens are in a cache.

    Args:
      task: The task.
      config: Configuration of the loader.
      cache: Directory of the cache.
      compare_files: Whether to compare the source files with those that the cache was made from, if they are here.

    Raises:
      ValueError: The cache is missing, damaged, or was made from other data.
    """
    if isinstance(task, ForeignTask):
        return _open_foreign_cache(task, _cached(task, task.fingerprint(config.split), config, cache), config)
    task = task.as_trained()
    with_files = compare_files and _has_files(task, config.split)
    fingerprint = task_fingerprint(task, config.split, with_files=with_files)
    return open_stored(task, _cached(task, fingerprint, config, cache), task.tokenizer, config)


def _cached(task: Task, fingerprint: dict[str, str], config: LoaderConfig, cache: str) -> CachedExamples:
    return CachedExamples.open(
        f"{cache}/{task.name}/{config.split}",
        task_fingerprint=fingerprint,
        on_corruption=config.on_corruption,
    )


def _has_files(definition: FileTask[Any], split: str) -> bool:
    try:
        find_files(definition.files[split])
    except ValueError:
        return False
    return True


def _open_foreign_cache(task: ForeignTask, stored: CachedExamples, config: LoaderConfig) -> OpenedTask:
    """Cut and end examples as seqio's pipeline would after the cache.

    Raises:
      ValueError: There are further steps, which need seqio itself.
    """
    steps = set(stored.manifest.contents.remaining_steps)
    if steps - {"append_eos_after_trim", "append_eos"}:
        raise ValueError(
            f"task {task.name!r} has steps after its cache ({', '.join(sorted(steps))}) that only seqio can run; train "
            "without the cache"
        )
    vocabulary = task.vocabulary
    lengths = Lengths(config.inputs_length, config.targets_length)
    end = vocabulary.eos_id if steps else None
    source = PairSource(task.name, stored, lengths, end=end, seed=config.seed, shuffle=config.shuffle)
    return OpenedTask(source, PAIRS, vocabulary)


def _num_cached(cache: str, name: str) -> int:
    return read_manifest(f"{cache}/{name}/train").num_examples


def open_stored(
    definition: FileTask[Any], stored: ExampleStore, vocabulary: Any, config: LoaderConfig
) -> OpenedTask:
    """Open a task whose tokens are in memory or in a cache.

    Args:
      definition: Task.
      stored: Its tokens.
      vocabulary: Tokenizer of the task.
      config: Configuration of the loader.

    Raises:
      ValueError: The objective doesn't work with this vocabulary or these lengths.
    """
    lengths = Lengths(config.inputs_length, config.targets_length)
    limit = definition.limit_of(config.split)
    if limit is not None:
        stored = first_examples(stored, limit, definition.features(), vocabulary.vocab_size)
    source = definition.accept(_SourceBuilder(stored, lengths, vocabulary, config))
    return OpenedTask(source, getattr(source, "spec", definition.spec), vocabulary)


class _SourceBuilder(NamedTuple):
    """Creates the source of a task's stored examples; a ``tasks.file_task.TaskVisitor``."""

    stored: ExampleStore
    lengths: Lengths
    vocabulary: Any
    config: LoaderConfig

    def documents(self, task: PretrainingTask) -> ExampleSource:
        """Return the source of a pretraining task."""
        ids = ids_of(self.vocabulary)
        if ids.eos is None and task.spec.layout != "encoder":
            raise ValueError(f"task {task.name!r}: {task.vocabulary!r} has no end of sequence")
        try:
            task.objective.check(self.lengths, ids)
        except ValueError as error:
            raise ValueError(f"task {task.name!r}: {error}") from None
        maker = ExampleMaker(task.objective, self.lengths, ids)
        stored = self.stored
        if task.max_tokens is not None and self.config.split == "train":
            stored = first_tokens(stored, task.max_tokens)
        if task.spec.contiguous:
            batch_size = self.config.batch_size
            return RecurrentSource(task.name, stored, maker, batch_size=batch_size, **self._order)
        return PretrainingSource(task.name, stored, maker, **self._order)

    def chats(self, task: ChatTask) -> ExampleSource:
        """Return the source of a task of conversations."""
        kind = ChatPreferenceSource if task.spec.num_choices else ChatSource
        source = kind(task.name, self.stored, self.lengths, **self._order)
        if source.num_trimmed:
            _log.warning(
                "task %s: %d conversations are longer than targets_length=%d and were cut",
                task.name,
                source.num_trimmed,
                self.lengths.targets,
            )
        return source

    def pairs(self, task: PairsTask) -> ExampleSource:
        """Return the source of a task of inputs and targets."""
        ids = ids_of(self.vocabulary)
        lengths, end = self.lengths, ids.eos
        if self.config.masked_targets is not None:
            lengths, end = self.config.masked_targets.limits(lengths, ids), ids.sep
        if end is None:
            raise ValueError(
                f"task {task.name!r}: {self.vocabulary} has no end of sequence, which targets need"
            )
        kind: Any = PairSource
        if task.spec.num_choices and ANSWER_ENDS not in task.features():
            kind = MismatchedSource
        elif task.spec.num_choices:
            kind = partial(PreferenceSource, num_answers=task.spec.num_choices)
        elif REFERENCE_ENDS in task.features():
            kind = ReferenceSource
        streams = task.declared_streams
        source = kind(task.name, self.stored, lengths, end=end, streams=streams, **self._order)
        if source.num_trimmed:
            _log.warning(
                "task %s: %d examples are longer than inputs_length=%d or targets_length=%d and were cut",
                task.name,
                source.num_trimmed,
                *lengths,
            )
        if self.config.masked_targets is None:
            return source
        return MaskedTargetSource(
            source, self.config.masked_targets, ids, seed=self.config.seed, pairs=task.spec
        )

    @property
    def _order(self) -> dict[str, Any]:
        return {"seed": self.config.seed, "shuffle": self.config.shuffle}


def _as_layout(opened: OpenedTask, config: LoaderConfig) -> OpenedTask:
    """Join inputs and targets into one stream if ``config.layout`` is "decoder".

    Raises:
      ValueError: ``loss_on_targets_only=False`` is given for a task that defines its own loss weights.
    """
    if config.layout != "decoder" or opened.spec.layout == "decoder":
        if not config.loss_on_targets_only and "weights" in opened.spec.fields:
            raise ValueError(
                f"task {opened.source.name!r} defines its own loss weights; loss_on_targets_only=False is for "
                "inputs and targets, omit it"
            )
        return opened
    lengths = Lengths(config.inputs_length, config.targets_length)
    source = DecoderSource(
        opened.source,
        lengths,
        prefix_attention=config.prefix_attention,
        loss_on_targets_only=config.loss_on_targets_only,
    )
    return opened._replace(source=source, spec=source.spec_for(config.prefix_attention, opened.spec))


def _common(spec: Sequence[ExampleSpec], names: Sequence[str]) -> ExampleSpec:
    """Return the common layout of all tasks, with the union of their fields.

    Raises:
      ValueError: Tasks have different layouts, or only some are contiguous.
    """
    if len({each.layout for each in spec}) > 1:
        listed = ", ".join(f"{name}: {each.layout}" for name, each in zip(names, spec, strict=True))
        raise ValueError(
            f"tasks of different layouts can't share batches ({listed}); layout='decoder' makes one"
        )
    if (
        len({(each.head, each.num_choices, each.head and (each.fields, each.label_loss)) for each in spec})
        > 1
    ):
        raise ValueError(
            f"{', '.join(names)} are for different heads, which can't share batches; train on one of them"
        )
    if len({each.streams for each in spec}) > 1:
        listed = "; ".join(
            f"{name} has {', '.join(field.name for field in each.streams) or 'none'}"
            for name, each in zip(names, spec, strict=True)
        )
        raise ValueError(
            f"tasks that share batches declare the same streams, but {listed}; give all the same"
        )
    contiguous = [name for name, each in zip(names, spec, strict=True) if each.contiguous]
    if contiguous and len(names) > 1:
        raise ValueError(
            f"rows of {contiguous[0]!r} go on where those of the batch before ended, so no other task can come "
            "between them; train on it alone, or give it an objective such as CausalLM"
        )
    fields = dict.fromkeys(field for each in spec for field in each.fields)
    fills_rows = any(each.fills_rows for each in spec)
    return ExampleSpec(
        layout=spec[0].layout,
        fields=tuple(fields),
        fills_rows=fills_rows,
        contiguous=bool(contiguous),
        num_choices=spec[0].num_choices,
        head=spec[0].head,
        label_loss=next((each.label_loss for each in spec if each.label_loss is not None), None),
        streams=spec[0].streams,
    )
