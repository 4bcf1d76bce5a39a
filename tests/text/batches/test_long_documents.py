"""A document without spaces that is much longer than the others."""

import itertools

import numpy as np
import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.cutting import MAX_CHUNK
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.tasks.pretraining import PretrainingTask


@pytest.mark.parametrize(("objective", "targets"), [(SpanCorruption(), 40), (CausalLM(), 128)])
def test_a_document_without_a_space_is_read_alike_from_memory_and_from_a_cache(tmp_path, objective, targets):
    (tmp_path / "long.txt").write_text("spaceless" * 40_000 + "\na short line\n")
    name = f"long_{targets}"
    definition = PretrainingTask(
        name=name, vocabulary="bytes", files={"train": str(tmp_path / "long.txt")}, objective=objective
    )
    registry.register([definition])
    manifest = cache_split(definition, "train", str(tmp_path / "caches"))
    assert manifest.num_tokens == {"tokens": 9 * 40_000 + len("a short line")}
    batches = []
    for cache in (None, str(tmp_path / "caches")):
        config = LoaderConfig(
            mixture=name,
            batch_size=8,
            inputs_length=128,
            targets_length=targets,
            repeat=False,
            pack=False,
            cache=cache,
        )
        batches.append(list(build_loader(config)))
    assert len(batches[0]) == len(batches[1])
    for first, second in itertools.islice(zip(*batches, strict=True), 20):
        assert all(
            np.array_equal(*streams) for streams in zip(first, second, strict=True) if streams[0] is not None
        )
    # One chunk of it is used in an epoch, so that it does not outweigh all others.
    rows = sum(int((batch.loss_weights.sum(axis=1) > 0).sum()) for batch in batches[0])
    assert MAX_CHUNK // 150 < rows < MAX_CHUNK // 100
