"""Tokenize tasks once, so that training starts anywhere in them without delay and needs no TensorFlow.

t5x-like cache king_james --gin_file=gin/recipes/quickstart/tasks.gin --output caches

Writes caches/TASK/SPLIT. The same command again continues where it was stopped, or checks and repairs a finished cache.
"""

import argparse
import os
from typing import Any

from t5x_like.audio.feature_caching import cache_features
from t5x_like.cli.arguments import (
    SHIPPED_TASKS,
    add_gin_arguments,
    add_runner_arguments,
    engine_of,
)
from t5x_like.cli.named_tasks import register_tasks, tasks_of
from t5x_like.cli.number_types import positive
from t5x_like.cli.quiet_tensorflow import quiet_tensorflow
from t5x_like.gin_config.user_error import UserError
from t5x_like.text.cache.cache_manifest import Manifest
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.foreign_tasks import ForeignTask
from t5x_like.text.tasks.speech_task import SpeechTask


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like cache``."""
    parser.add_argument("tasks", nargs="+", metavar="TASK", help="tasks, or mixtures for all of their tasks")
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder of caches")
    parser.add_argument("--split", action="append", default=[], help="only this split; may be repeated (all)")
    parser.add_argument(
        "--num_shards", type=positive, metavar="N", help="shards of equally many examples (of 512 MiB each)"
    )
    parser.add_argument(
        "--num_processes",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="tokenize with so many processes (%(default)s); the outcome is the same",
    )
    add_runner_arguments(parser, note=". A shard for each input file")
    add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the caches."""
    if arguments.num_processes < 1:
        raise UserError(f"--num_processes must be at least 1, not {arguments.num_processes}")
    if not arguments.gin_file and not arguments.module:
        arguments.gin_file = [SHIPPED_TASKS]
    register_tasks(arguments)
    tasks = {name: task for each in tasks_of(arguments.tasks) for name, task in each.tasks.items()}
    engine = engine_of(arguments)
    for name, task in tasks.items():
        wanted = [split for split in arguments.split or task.splits if split in task.splits]
        if not wanted:
            raise UserError(
                f"task {name!r} has no split {', '.join(arguments.split)}; there are {', '.join(task.splits)}"
            )
        for split in wanted:
            how: dict[str, Any] = {
                "num_shards": arguments.num_shards,
                "num_processes": arguments.num_processes,
                "engine": engine,
            }
            if isinstance(task, SpeechTask):
                print(_cache_recordings(task, split, arguments))
                continue
            if not isinstance(task, ForeignTask):
                manifest = cache_split(task, split, arguments.output, **how)
            else:
                from t5x_like.text.seqio_bridge.cache_tasks import cache_seqio_split  # imports TensorFlow

                how |= {"modules": arguments.module, "prepare": quiet_tensorflow}
                manifest = cache_seqio_split(registration.get_task(name), split, arguments.output, **how)
            print(_line(f"{arguments.output}/{name}/{split}", manifest))
    return 0


def _cache_recordings(task: SpeechTask, split: str, arguments: argparse.Namespace) -> str:
    """Write the features of a task's recordings, and return a line about them."""
    for flag in ("num_shards", "runner"):
        if getattr(arguments, flag):
            raise UserError(
                f"--{flag} is for caches of tokens, and task {task.name!r} has recordings; leave it out"
            )
    features, directory = task.recording_features, f"{arguments.output}/{task.name}/{split}"
    cache = cache_features(
        task.spoken_texts(list(task.read(split))),
        features,
        directory,
        settings=features.fingerprint,
        num_workers=arguments.num_processes if arguments.num_processes > 1 else 0,
        on_bad=task.on_bad_row,
    )
    skipped = f"; {_count(cache.num_skipped, 'recording')} left out" if cache.num_skipped else ""
    return f"{directory}: {_count(len(cache), 'recording')} ({', '.join(cache.names)}){skipped}"


def _line(directory: str, manifest: Manifest) -> str:
    tokens = ", ".join(f"{num_tokens:,} {name}" for name, num_tokens in manifest.num_tokens.items())
    size = sum(shard.bytes for shard in manifest.shards)
    skipped = f"; {manifest.num_skipped:,} bad rows left out" if manifest.num_skipped else ""
    return (
        f"{directory}: {_count(manifest.num_examples, 'example')} ({tokens}), {size / 1e6:,.1f} MB in "
        f"{_count(len(manifest.shards), 'shard')}{skipped}"
    )


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
