"""Global batches are the same with any number of hosts and workers, and after any restart."""

import dataclasses
import itertools
import random
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.mixtures import Mixture

BATCH_SIZE = 8


def config(mixture: str, **changes) -> LoaderConfig:
    settings = {
        "mixture": mixture,
        "batch_size": BATCH_SIZE,
        "inputs_length": 64,
        "targets_length": 32,
        "seed": 3,
    }
    return LoaderConfig(**(settings | changes))


@pytest.fixture
def mixture(make_text_task, make_corpus) -> str:
    tasks = (make_text_task(), make_corpus(), make_text_task(7))
    rates = dict(zip(tasks, (3.0, 2.0, 1.0), strict=True))
    registry.register([Mixture(name=f"hosts_{tasks[0]}", tasks=tasks, rates=rates)])
    return f"hosts_{tasks[0]}"


def global_batches(settings: LoaderConfig, count: int, hosts: int, state=None) -> tuple[list[Batch], list]:
    """Return batches of all hosts, concatenated, and the state after each, which must be equal on all hosts."""
    loaders = [build_loader(settings, host, hosts) for host in range(hosts)]
    batches, states = [], []
    try:
        for loader in loaders:
            if state is not None:
                loader.restore(state)
        for _ in range(count):
            parts = [next(loader) for loader in loaders]
            batches.append(
                Batch(
                    *(
                        None if stream[0] is None else np.concatenate(stream)
                        for stream in zip(*parts, strict=True)
                    )
                )
            )
            places = [loader.state() for loader in loaders]
            assert all(place == places[0] for place in places)
            states.append(places[0])
    finally:
        for loader in loaders:
            loader.close()
    return batches, states


def assert_equal(left: list[Batch], right: list[Batch]) -> None:
    for one, other in zip(left, right, strict=True):
        for name, mine, reference in zip(Batch._fields, one, other, strict=True):
            np.testing.assert_array_equal(mine, reference, err_msg=name)


@pytest.fixture
def kinds(mixture, make_text_task, make_talks) -> dict[str, LoaderConfig]:
    """Return mixtures with the settings to read them."""
    tasks = (make_text_task(), make_talks())
    registry.register([Mixture(name=f"sft_{tasks[0]}", tasks=tasks, rates=dict.fromkeys(tasks, 1.0))])
    in_one = {"targets_length": 64, "inputs_length": 32, "layout": "decoder"}
    return {
        "a mixture": config(mixture),
        "conversations": config(tasks[1], **in_one),
        "questions as prefixes": config(tasks[0], **in_one),
        "questions and conversations": config(f"sft_{tasks[0]}", **in_one, prefix_attention="causal"),
    }


# Hosts and workers of each.
CHEAP = {
    ("a mixture", True): (2, 2),
    ("a mixture", False): (1, 3),
    ("conversations", True): (1, 2),
    ("conversations", False): (2, 1),
    ("questions as prefixes", True): (1, 3),
    ("questions as prefixes", False): (1, 1),
    ("questions and conversations", True): (2, 1),
    ("questions and conversations", False): (1, 2),
}


def check_cells(
    settings: LoaderConfig, cells: Iterable[tuple[int, int]], *, caches: Sequence[str | None] = (None,)
) -> None:
    """Kill a run of one process after a random batch for each cell, and continue it there.

    Every second kill is shortly before the end of a window of a thousand examples, which is otherwise rare. The
    continued runs read their tokens from ``caches`` in turn.
    """
    num_batches, compared = 160 if settings.pack else 300, 12
    expected, states = global_batches(settings, num_batches, 1)
    windows = [state["place"]["window"] for state in states]
    ends = [end for end in range(compared, num_batches - compared) if windows[end] != windows[end - 1]]
    assert ends
    chooser = random.Random(f"{settings.layout} {settings.prefix_attention} {settings.pack}")
    for index, (hosts, workers) in enumerate(cells):
        cache = caches[index % len(caches)]
        anywhere = chooser.randrange(1, num_batches - compared)
        start = chooser.choice(ends) - chooser.randrange(1, compared) if index % 2 else anywhere
        changed = dataclasses.replace(settings, num_workers=workers, cache=cache)
        result, places = global_batches(changed, compared, hosts, states[start - 1])
        assert_equal(result, expected[start : start + compared])
        assert places == states[start : start + compared], (hosts, workers, cache, start)


@pytest.mark.parametrize(("kind", "pack"), CHEAP)
def test_hosts_workers_and_kills_change_nothing(kinds, kind: str, pack: bool) -> None:
    cells = [(1, 0), (2, 0), (4, 0), CHEAP[kind, pack]]
    check_cells(dataclasses.replace(kinds[kind], pack=pack), cells)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pack"), CHEAP)
def test_all_numbers_of_hosts_and_workers_change_nothing(tmp_path, kinds, kind: str, pack: bool) -> None:
    settings = dataclasses.replace(kinds[kind], pack=pack)
    for task in registry.resolve(settings.mixture).tasks.values():
        assert isinstance(task, FileTask)
        cache_split(task, "train", str(tmp_path / "cache"))
    cells = itertools.product((1, 2, 4), range(4))
    cache = str(tmp_path / "cache")
    check_cells(settings, cells, caches=(None, cache, cache))


def test_a_kill_at_any_position_is_recovered_from(mixture: str) -> None:
    settings = config(mixture)
    expected, states = global_batches(settings, 60, 1)
    for start in range(0, 59, 7):
        result, _ = global_batches(settings, 1, 1, states[start])
        assert_equal(result, expected[start + 1 : start + 2])


def test_the_state_is_small_and_restored_directly(mixture: str) -> None:
    """Check that restoring a distant position opens one window, not all previous ones."""
    loader = build_loader(config(mixture))
    next(loader)
    state = loader.state()
    state["place"]["window"] = 10**9
    for task in state["place"]["tasks"]:
        state["place"]["tasks"][task] = [10**6, 0]
    loader.restore(state)
    assert next(loader).loss_weights.sum() > 0
    assert loader.state()["place"]["window"] == 10**9


def test_rates_may_change_on_the_way_and_that_is_said(make_text_task, caplog) -> None:
    tasks = (make_text_task(500), make_text_task(500))
    names = [f"before_{tasks[0]}", f"after_{tasks[0]}"]
    for name, rates in zip(names, ((1.0, 1.0), (1.0, 0.0)), strict=True):
        registry.register([Mixture(name=name, tasks=tasks, rates=dict(zip(tasks, rates, strict=True)))])
    settings = config(names[0], pack=False)
    first = build_loader(settings)
    for _ in range(100):
        next(first)
    second = build_loader(dataclasses.replace(settings, mixture=names[1]))
    second.restore(first.state())
    assert "the mixture" in caplog.text
    assert "[0.5, 0.5] before, [1.0, 0.0] now" in caplog.text
    # The thousand examples that were begun are finished as they were planned.
    for _ in range(28):
        np.testing.assert_array_equal(next(first).target_tokens, next(second).target_tokens)
    drawn = {int(task) for _ in range(50) for task in np.unique(next(second).task_ids)}
    assert drawn == {0}


def test_a_changed_objective_is_logged_and_training_continues(make_corpus, caplog) -> None:
    """Check that a position without a text in the new objective is the end of its window."""
    name = make_corpus(30)
    settings = config(name, targets_length=64, pack=False)
    first = build_loader(settings)
    for _ in range(100):
        next(first)
    state = first.state()
    state["place"]["tasks"][name] = [2, 10**6]
    state["data"]["objectives"] = ["SpanCorruption(noise_density=0.5)"]
    second = build_loader(settings)
    second.restore(state)
    assert "objectives: ['SpanCorruption(noise_density=0.5)'] before" in caplog.text
    assert next(second).loss_weights.sum() > 0


def test_other_data_is_refused_with_possible_causes(make_corpus) -> None:
    loader = build_loader(config(make_corpus(30), targets_length=64))
    state = loader.state()
    state["data"]["checksums"] = [1]
    with pytest.raises(ValueError, match=r"checksums: \[1\] before, (.|\n)*a cache of an earlier version"):
        loader.restore(state)


def test_each_task_keeps_the_windows_that_it_reads(make_corpus) -> None:
    """Check that no task of a mixture is read again for every thousand examples."""
    names = tuple(make_corpus(400) for _ in range(5))
    registry.register([Mixture(name=f"five_{names[0]}", tasks=names, rates=dict.fromkeys(names, 1.0))])
    sources = build_loader(config(f"five_{names[0]}", targets_length=64))._make.sources
    windows = [source._open(0, 0) for source in sources]  # pyright: ignore[reportAttributeAccessIssue]
    for source, window in zip(sources, windows, strict=True):
        assert source._open(0, 0) is window  # pyright: ignore[reportAttributeAccessIssue]


def test_packing_fills_rows_and_says_how_well(make_text_task) -> None:
    name = make_text_task(300)
    loaders = {pack: build_loader(config(name, pack=pack)) for pack in (True, False)}
    for loader, _ in itertools.product(loaders.values(), range(20)):
        next(loader)
    assert loaders[False].share_filled < 0.4
    assert loaders[True].share_filled > loaders[False].share_filled + 0.2
