"""Runs switch between tokenizing at the start and a cache, with identical batches."""

import dataclasses
import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.tasks.mixtures import Mixture

PROGRAM = """
import json, pickle, sys
from pathlib import Path
from t5x_like.text.batches.loader import build_loader
from t5x_like.text import registry
definitions, settings = pickle.loads(Path(sys.argv[1]).read_bytes())
registry.register(definitions)
loader = build_loader(settings)
for batch in loader:
    print(json.dumps([int(batch.target_tokens.sum()), loader.state()]), flush=True)
"""


def state_at_kill(folder: Path, settings: LoaderConfig, after: int) -> tuple[list[int], dict]:
    """Return checksums of batches, and the last position, of a program that is killed after some batches."""
    mixture = registry.definition(settings.mixture)
    assert isinstance(mixture, Mixture)
    definitions = [mixture, *map(registry.definition, mixture.tasks)]
    (folder / "run.pickle").write_bytes(pickle.dumps((definitions, settings)))
    command = [sys.executable, "-c", PROGRAM, str(folder / "run.pickle")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        lines = [json.loads(running.stdout.readline()) for _ in range(after)]
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL
    return [line[0] for line in lines], lines[-1][1]


def mix(*tasks: str) -> str:
    rates = dict.fromkeys(tasks, 1.0)
    registry.register([Mixture(name=f"mixed_{tasks[0]}", tasks=tasks, rates=rates)])
    return f"mixed_{tasks[0]}"


def cache_all(*tasks: str, output: Path) -> str:
    for name in tasks:
        task = registry.definition(name)
        assert task is not None
        assert not isinstance(task, Mixture)
        cache_split(task, "train", str(output), num_shards=3)
    return str(output)


def assert_equal(one: Batch, other: Batch) -> None:
    for name, mine, reference in zip(Batch._fields, one, other, strict=True):
        np.testing.assert_array_equal(mine, reference, err_msg=name)


def decoders(mixture: str) -> LoaderConfig:
    """Return a mixture of pairs, conversations and documents in one stream."""
    return LoaderConfig(
        mixture=mixture, batch_size=4, inputs_length=32, targets_length=64, seed=7, layout="decoder"
    )


@pytest.mark.parametrize("goes_on_from", ["cache", "memory"])
def test_a_killed_run_continues_from_the_other_with_the_same_batches(
    tmp_path, make_text_task, make_talks, make_corpus, goes_on_from
):
    tasks = make_text_task(), make_talks(), make_corpus(objective=CausalLM())
    in_memory = decoders(mix(*tasks))
    cached = dataclasses.replace(in_memory, cache=cache_all(*tasks, output=tmp_path / "cache"))
    before, after = (in_memory, cached) if goes_on_from == "cache" else (cached, in_memory)
    uninterrupted = build_loader(in_memory)
    sums, state = state_at_kill(tmp_path, before, after=37)
    assert sums == [int(next(uninterrupted).target_tokens.sum()) for _ in sums]
    resumed = build_loader(after)
    resumed.restore(state)
    for _ in range(400):  # over the ends of windows and of epochs
        assert_equal(next(resumed), next(uninterrupted))
    assert resumed.state() == uninterrupted.state()


def test_other_texts_are_refused_wherever_they_come_from(tmp_path, make_corpus):
    """Check that a position is refused in a cache of other texts, although name and number of tokens are equal."""
    name = make_corpus(objective=CausalLM())
    settings = dataclasses.replace(decoders(name), cache=cache_all(name, output=tmp_path / "cache"))
    state = build_loader(settings).state()
    (file,) = (tmp_path / f"{name}.txt",)
    text = file.read_text()
    file.write_text(text.replace("beginning", "ginningeb", 1))
    changed = build_loader(dataclasses.replace(settings, cache=None))
    with pytest.raises(
        ValueError,
        match=r"(?s)checksums: .* before, .* now.*task \w+ has other examples than before.*differ for other",
    ):
        changed.restore(state)
    file.write_text(text)
    build_loader(dataclasses.replace(settings, cache=None)).restore(state)


def test_a_cache_with_other_examples_quarantined_is_refused(tmp_path, make_corpus):
    """Check that a position is refused in a cache with as many, but other, quarantined examples."""
    name = make_corpus(2000)
    settings = LoaderConfig(
        mixture=name,
        batch_size=2,
        inputs_length=64,
        targets_length=32,
        cache=cache_all(name, output=tmp_path / "cache"),
        on_corruption="quarantine",
    )
    whole = build_loader(settings).state()
    states = [whole]
    shards = sorted((tmp_path / "cache" / name / "train").glob("*.array_record"))
    for shard in shards[:2]:
        content = shard.read_bytes()
        shard.unlink()
        loader = build_loader(settings)
        for state in states:
            with pytest.raises(ValueError, match="a cache with other quarantined examples"):
                loader.restore(state)
        states.append(loader.state())
        shard.write_bytes(content)
    lost = [CachedExamples.open(shards[0].parent).manifest.shards[number].examples for number in (0, 1)]
    assert abs(lost[0] - lost[1]) <= 1
    build_loader(settings).restore(whole)
