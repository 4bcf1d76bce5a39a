"""From a name to sources of examples: of one task or of a mixture's."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from t5x_like.io.paths import find_files
from t5x_like.text.batches.example_sources import ChatSource, DecoderSource, ExampleMaker, PairSource
from t5x_like.text.batches.in_memory import ExampleStore, TooLarge, hold
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.pretraining_examples import PretrainingSource
from t5x_like.text.batches.recurrent_source import RecurrentSource
from t5x_like.text.batches.task_source import PAIRS, OpenedTask, OpenedTasks
from t5x_like.text.heads.sources import open_head_task
from t5x_like.text.objectives.causal_lm import SFT_SPEC
from t5x_like.text.objectives.objective import ExampleSpec, Lengths
from t5x_like.text.seqio_bridge.open_seqio_tasks import open_seqio_stream, open_seqio_task
from t5x_like.text.tasks import registry
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.tokenising import TokenisedTask, tokenizer_of, with_sentences
from t5x_like.text.vocabularies.ids import VocabularyIds, ids_of

if TYPE_CHECKING:
    from t5x_like.text.cache.reader import CachedExamples

_log = logging.getLogger(__name__)


def open_tasks(config: LoaderConfig) -> OpenedTasks:
    """Opens the tasks that ``config`` names.

    Raises:
      ValueError: unknown names, bad rows, lengths that don't fit, tasks that can't share a batch.
    """
    names, rates = tasks_and_rates(config)
    opened = [_as_layout(_open_task(name, config), config) for name in names]
    vocabulary = _common_vocabulary([task.vocabulary for task in opened], names)
    return OpenedTasks(
        names,
        [task.source for task in opened],
        [rate / sum(rates) for rate in rates],
        _common([task.spec for task in opened], names),
        vocabulary,
        ids_of(vocabulary),
    )


def _common_vocabulary(vocabularies: Sequence[Any], names: Sequence[str]) -> Any:
    """The vocabulary of all tasks; the tokenizer, where seqio's has one of ours inside."""
    tokenizers = [getattr(vocabulary, "core", vocabulary) for vocabulary in vocabularies]
    for name, tokenizer in zip(names, tokenizers, strict=True):
        if tokenizer != tokenizers[0]:
            raise ValueError(
                f"task {name!r} has another vocabulary ({tokenizer}) than {names[0]!r} ({tokenizers[0]}); a run has one"
            )
    return tokenizers[0]


def tasks_and_rates(config: LoaderConfig) -> tuple[list[str], list[float]]:
    """The tasks that have the split, and how often each is drawn; in measuring all count, whatever their rate."""
    names = registry.names_of_tasks(config.mixture)
    having = [name for name in names if config.split in registry.splits_of(name)]
    if not having:
        splits = sorted({split for name in names for split in registry.splits_of(name)})
        raise ValueError(f"{config.mixture!r} has no split {config.split!r}; there are {', '.join(splits)}")
    if not config.repeat or len(names) == 1:
        return having, [1.0] * len(having)
    count = None if config.cache is None else partial(_num_cached, config.cache)
    return having, [registry.rate_of(config.mixture, name, count) for name in having]


def _open_task(name: str, config: LoaderConfig) -> OpenedTask:
    definition = registry.definition(name)
    if config.layout == "encoder" and not isinstance(definition, PretrainingTask):
        return open_head_task(definition, name, config)
    if config.cache is not None:
        return open_cached_task(name, config, config.cache)
    if definition is None or isinstance(definition, Mixture):
        return open_seqio_task(name, config)
    try:
        held = hold(
            with_sentences(definition), config.split, max_tokens_in_memory=config.max_tokens_in_memory
        )
    except TooLarge:
        _log.warning(
            "task %s: over %d tokens, read as a stream and not from memory; with t5x-like cache any place in it can be "
            "gone to at once",
            name,
            config.max_tokens_in_memory,
        )
        return open_seqio_stream(name, config)
    return open_stored(definition, held, tokenizer_of(definition), config)


def open_cached_task(name: str, config: LoaderConfig, cache: str) -> OpenedTask:
    """A task whose tokens a cache holds.

    Raises:
      ValueError: there is no such cache, it is damaged, or it was made from something else.
    """
    from t5x_like.text.cache.fingerprint import task_fingerprint
    from t5x_like.text.cache.reader import CachedExamples

    definition = registry.definition(name)
    if definition is None or isinstance(definition, Mixture):
        task = registry.get_task(name)
        fingerprint = task_fingerprint(task, config.split)
        vocabulary = task.output_features["targets"].vocabulary
    else:
        definition = with_sentences(definition)
        fingerprint = task_fingerprint(definition, config.split, files=_told_by(definition, config.split))
        vocabulary = tokenizer_of(definition)
    stored = CachedExamples.open(
        f"{cache}/{name}/{config.split}", task_fingerprint=fingerprint, on_corruption=config.on_corruption
    )
    if definition is None or isinstance(definition, Mixture):
        return _of_seqio(name, stored, vocabulary, config)
    return open_stored(definition, stored, vocabulary, config)


def _told_by(definition: TokenisedTask, split: str) -> Literal["sizes", "unread"]:
    """The files that a cache was made of need not be where it is read; where they are, they must be as large."""
    try:
        find_files(definition.files[split])
    except ValueError:
        return "unread"
    return "sizes"


def _of_seqio(name: str, stored: "CachedExamples", vocabulary: Any, config: LoaderConfig) -> OpenedTask:
    """What seqio's pipeline would still do after the cache: cut and end. Steps that do more need it itself.

    Raises:
      ValueError: there are such steps.
    """
    steps = set(stored.manifest.contents.remaining_steps)
    if steps - {"append_eos_after_trim", "append_eos"}:
        raise ValueError(
            f"task {name!r} has steps after its cache ({', '.join(sorted(steps))}) that only seqio can take; train "
            "without the cache"
        )
    lengths = Lengths(config.inputs_length, config.targets_length)
    end = vocabulary.eos_id if steps else None
    pairs = PairSource(name, stored, lengths, end=end, seed=config.seed, shuffle=config.shuffle)
    return OpenedTask(pairs, PAIRS, vocabulary)


def _num_cached(cache: str, name: str) -> int:
    from t5x_like.text.cache.manifest import read_manifest

    return read_manifest(f"{cache}/{name}/train").num_examples


def open_stored(
    definition: TokenisedTask, stored: ExampleStore, vocabulary: Any, config: LoaderConfig
) -> OpenedTask:
    lengths = Lengths(config.inputs_length, config.targets_length)
    order = {"seed": config.seed, "shuffle": config.shuffle}
    ids = ids_of(vocabulary)
    if isinstance(definition, PretrainingTask):
        objective = definition.objective
        _check_objective(definition, lengths, ids)
        maker = ExampleMaker(objective, lengths, ids)
        if objective.spec.contiguous:
            source = RecurrentSource(definition.name, stored, maker, batch_size=config.batch_size, **order)
        else:
            source = PretrainingSource(definition.name, stored, maker, **order)
        return OpenedTask(source, objective.spec, vocabulary)
    if isinstance(definition, ChatTask):
        chats = ChatSource(definition.name, stored, lengths, **order)
        if chats.num_trimmed:
            _log.warning(
                "task %s: %d conversations are longer than targets_length=%d and were cut",
                definition.name,
                chats.num_trimmed,
                lengths.targets,
            )
        return OpenedTask(chats, SFT_SPEC, vocabulary)
    if ids.eos is None:
        raise ValueError(f"task {definition.name!r}: {vocabulary} has no end of sequence, which targets need")
    pairs = PairSource(definition.name, stored, lengths, end=ids.eos, **order)
    if pairs.num_trimmed:
        _log.warning(
            "task %s: %d examples are longer than inputs_length=%d or targets_length=%d and were cut",
            definition.name,
            pairs.num_trimmed,
            *lengths,
        )
    return OpenedTask(pairs, PAIRS, vocabulary)


def _check_objective(definition: PretrainingTask, lengths: Lengths, ids: VocabularyIds) -> None:
    if ids.eos is None and definition.objective.spec.layout != "encoder":
        raise ValueError(f"task {definition.name!r}: {definition.vocabulary!r} has no end of sequence")
    try:
        definition.objective.check(lengths, ids)
    except ValueError as error:
        raise ValueError(f"task {definition.name!r}: {error}") from None


def _as_layout(opened: OpenedTask, config: LoaderConfig) -> OpenedTask:
    """Questions and answers as one stream, where that is the layout asked for.

    Raises:
      ValueError: ``loss_on_targets_only=False`` is given where a task itself says what is learned.
    """
    if config.layout != "decoder" or opened.spec.layout == "decoder":
        if not config.loss_on_targets_only and "weights" in opened.spec.fields:
            raise ValueError(
                f"task {opened.source.name!r} says itself which tokens are learned; loss_on_targets_only=False is for "
                "inputs and targets, leave it out"
            )
        return opened
    lengths = Lengths(config.inputs_length, config.targets_length)
    source = DecoderSource(
        opened.source,
        lengths,
        prefix_attention=config.prefix_attention,
        loss_on_targets_only=config.loss_on_targets_only,
    )
    return opened._replace(source=source, spec=source.spec)


def _common(spec: Sequence[ExampleSpec], names: Sequence[str]) -> ExampleSpec:
    """One layout, and all fields.

    Raises:
      ValueError: tasks of different layouts, or a contiguous one among others.
    """
    if len({each.layout for each in spec}) > 1:
        listed = ", ".join(f"{name}: {each.layout}" for name, each in zip(names, spec, strict=True))
        raise ValueError(
            f"tasks of different layouts can't share batches ({listed}); layout='decoder' makes one"
        )
    if len({(each.head, each.num_choices, each.head and each.fields) for each in spec}) > 1:
        raise ValueError(
            f"{', '.join(names)} are for different heads, which can't share batches; train on one of them"
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
    )
