"""Measure how many training sequences a second one core makes from a token cache, for every objective.

    python -m benchmarks.input_speed
    python -m benchmarks.input_speed --objective span_corruption masked_lm --output speed.json
    python -m benchmarks.input_speed --objective causal_lm --memory --batches 100000 --batch_size 8

Caches the shipped King James Bible, then makes batches of sequences of 512 tokens by each ``gin/objectives/*.gin``.
Rates are sequences per CPU second of this process, which is pinned to one core. The reference runs in the same session:
T5's span corruption by seqio and tf.data, with the same ids as ``span_corruption``. ``--memory`` samples resident
memory over many batches instead. Prints a JSON object; ``--output`` keeps it.
"""

import argparse
import itertools
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.machine import about

ROOT = Path(__file__).resolve().parent.parent
LENGTH = 512
PHRASES = (
    "the LORD",
    "children of Israel",
    "house of Judah",
    "king of Babylon",
    "Jesus Christ",
    "holy Ghost",
)


def main() -> None:
    arguments = parse()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    with tempfile.TemporaryDirectory(prefix="input_speed_") as cache:
        result = measure_all(arguments, cache)
    print(json.dumps(result, indent=2))
    if arguments.output:
        from t5x_like.io.files import write_json

        write_json(arguments.output, result)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted(path.stem for path in (ROOT / "gin/objectives").glob("*.gin"))
    parser.add_argument("--objective", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5.0, help="of CPU for each objective")
    parser.add_argument("--memory", action="store_true", help="sample memory over --batches batches")
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--output", metavar="FILE")
    return parser.parse_args()


def measure_all(arguments: argparse.Namespace, cache: str) -> dict[str, Any]:
    from t5x_like.text.cache.writing import cache_split

    phrases = Path(cache) / "phrases.txt"
    phrases.write_text("".join(f"{phrase}\n" for phrase in PHRASES))
    tasks = {name: task_of(name, phrases) for name in arguments.objective}
    # What a cache holds doesn't depend on the objective; it is asked for by each task's name.
    example = replace(next(iter(tasks.values())), name="king_james", sentences=True)
    cache_split(example, "train", cache)
    measured = {}
    for name, task in tasks.items():
        link = Path(cache) / task.name
        link.symlink_to(Path(cache) / "king_james")
        loader = open_loader(task, cache, arguments.batch_size)
        what = memory_over(loader, arguments.batches) if arguments.memory else rate_of(loader, arguments)
        measured[name] = what
        print(f"{name}: {what}", file=sys.stderr)
    if arguments.memory:
        return about(num_cores=1) | {"batch_size": arguments.batch_size, "memory": measured}
    reference = reference_rate(arguments.seconds)
    rows = {
        name: {"sequences_per_second": round(rate), "times_the_reference": round(rate / reference, 2)}
        for name, rate in measured.items()
    }
    return about(num_cores=1) | {
        "tokens_a_sequence": LENGTH,
        "batch_size": arguments.batch_size,
        "reference": {
            "what": "span corruption by seqio and tf.data",
            "sequences_per_second": round(reference),
        },
        "objectives": rows,
    }


def task_of(objective: str, phrases: Path) -> Any:
    """Return the shipped corpus with an objective; one of them needs a list of phrases."""
    from t5x_like.gin_config.configuration import load_one

    macros = f"WORD_LIST = '{phrases}'\nVOCABULARY = 'data/vocabulary/spiece.model'\n"
    with tempfile.NamedTemporaryFile("w", suffix=".gin") as file:
        file.write(
            "from __gin__ import dynamic_registration\n"
            "from t5x_like.text.tasks import pretraining\n"
            f"include 'gin/objectives/{objective}.gin'\n"
            f"{macros if objective == 'knowledge_masking' else ''}"
            "TASKS = (@pretraining.PretrainingTask(),)\n"
            "pretraining.PretrainingTask:\n"
            f"    name = 'king_james_{objective}'\n"
            "    files = {'train': 'data/king_james/train.txt'}\n"
            "    vocabulary = 'data/vocabulary/spiece.model'\n"
            "    objective = %OBJECTIVE\n"
            "    sentences = True\n"
        )
        file.flush()
        tasks = load_one(
            [file.name],
            [],
            root="t5x_like.training.experiment.Experiment",
            parameter="tasks",
            macro="TASKS",
            search_paths=[str(ROOT)],
        )
    return tasks[0]


def open_loader(task: Any, cache: str, batch_size: int) -> Any:
    from t5x_like.text import registry
    from t5x_like.text.batches.loader import build_loader
    from t5x_like.text.batches.loader_config import LoaderConfig

    registry.register([task])
    needed = 114 if task.name.endswith("span_corruption") else LENGTH
    return build_loader(
        LoaderConfig(
            mixture=task.name,
            batch_size=batch_size,
            inputs_length=LENGTH,
            targets_length=needed,
            cache=cache,
            pack=False,
        )
    )


def rate_of(loader: Any, arguments: argparse.Namespace) -> float:
    """Return rows per CPU second, without the first thousand, for which the corpus is opened."""
    for _ in range(-(-1024 // arguments.batch_size) + 1):
        next(loader)
    start, rows = time.process_time(), 0
    while time.process_time() - start < arguments.seconds:
        next(loader)
        rows += arguments.batch_size
    return rows / (time.process_time() - start)


def memory_over(loader: Any, num_batches: int) -> dict[str, float]:
    """Return resident MiB early, late, and at the peak."""
    samples = {}
    for index in range(1, num_batches + 1):
        next(loader)
        if index in (num_batches // 10, num_batches // 2, num_batches):
            samples[f"resident_mib_after_{index}"] = round(resident_mib(), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return samples | {"peak_mib": round(peak, 1)}


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def reference_rate(seconds: float) -> float:
    """Return examples per CPU second of T5's span corruption through seqio, from tokenized documents in memory."""
    import numpy as np
    import seqio
    import tensorflow as tf

    from t5x_like.text.objectives.span_corruption import SpanCorruption
    from t5x_like.text.seqio_bridge import preprocessors

    chooser = np.random.default_rng(0)
    documents = [chooser.integers(3, 32_000, size) for size in chooser.integers(100, 900, 2000)]

    def dataset_fn(split: str, shuffle_files: bool, seed: int | None = None) -> tf.data.Dataset:
        del split, shuffle_files, seed
        ragged = tf.ragged.constant(documents, tf.int32)
        return tf.data.Dataset.from_tensor_slices(ragged).map(lambda tokens: {"targets": tokens}).repeat()

    feature = seqio.Feature(seqio.PassThroughVocabulary(size=32_100, eos_id=1), add_eos=True)
    task = seqio.Task(
        "reference_span_corruption",
        seqio.FunctionDataSource(dataset_fn, splits=["train"]),
        output_features={"inputs": feature, "targets": feature},
        preprocessors=[
            *preprocessors.span_corruption(SpanCorruption()),
            seqio.preprocessors.append_eos_after_trim,
        ],
    )
    rows = task.get_dataset({"inputs": LENGTH, "targets": 114}, "train", shuffle=False).as_numpy_iterator()
    for _ in itertools.islice(rows, 500):
        pass
    start, count = time.process_time(), 0
    while time.process_time() - start < seconds:
        count += sum(1 for _ in itertools.islice(rows, 100))
    return count / (time.process_time() - start)


if __name__ == "__main__":
    main()
