"""T5's objectives and UL2 as tasks of text files: through seqio, and through the loader that training uses."""

import numpy as np
import pytest

from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import FullLM
from t5x_like.text.objectives.denoising import Denoising, Deshuffling
from t5x_like.text.objectives.noise import MaskTokens, SpanNoise
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.objectives.ul2 import UL2
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pretraining import PretrainingTask

OBJECTIVES = {
    "span_corruption": SpanCorruption(),
    "rolled_spans": Denoising(noise=SpanNoise(roll=True)),
    "iid_denoising": Denoising(),
    "dropped_tokens": Denoising(inputs="dropped", targets="dropped"),
    "bert_style": Denoising(inputs=MaskTokens(random_rate=0.1), targets="text"),
    "deshuffling": Deshuffling(),
    "prefix_lm": PrefixLM(),
    "full_lm": FullLM(),
    "ul2": UL2(max_sentinels=80),
}
FIRST_BYTE, FIRST_SENTINEL, EOS = 3, 259, 1
LENGTHS = {"inputs": 64, "targets": 64}


@pytest.fixture
def task_name(tmp_path, request):
    name = request.node.callspec.params["name"]
    unique = f"{name}_{tmp_path.name}"
    file = tmp_path / "text.txt"
    file.write_text("".join(f"the {index}th line is a document of its own\n" for index in range(60)))
    task = PretrainingTask(
        name=unique, vocabulary="bytes", files={"train": str(file)}, objective=OBJECTIVES[name]
    )
    registry.register([task])
    return unique


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.seqio
def test_a_seqio_task_gives_examples_within_the_limits(task_name, name):
    task = registration.get_task(task_name)
    examples = list(task.get_dataset(LENGTHS, "train", shuffle=False, seed=3).as_numpy_iterator())
    assert len(examples) > 20
    for example in examples:
        assert all(1 <= len(tokens) <= 64 for tokens in example.values())
        ends = [tokens[-1] == EOS for tokens in example.values()]
        assert all(ends) or name == "full_lm"


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_loader_learns_real_tokens_only_and_repeats_itself(task_name, name):
    config = LoaderConfig(mixture=task_name, batch_size=8, inputs_length=64, targets_length=64)
    first, again = (next(build_loader(config)) for _ in range(2))
    for stream, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(stream, other)
    assert ((first.loss_weights > 0) == (first.target_tokens != 0)).all()
    assert (first.loss_weights > 0).mean() > 0.1
    assert (first.encoder_input_tokens is None) == (name == "full_lm")
    words = first.target_tokens[(first.target_tokens >= FIRST_BYTE) & (first.target_tokens < FIRST_SENTINEL)]
    assert set(bytes((words - FIRST_BYTE).astype(np.uint8))) <= set(b"thelin sadocumfw0123456789")


@pytest.mark.parametrize("name", ["prefix_lm"])
def test_a_decoder_reads_the_prefix_and_learns_the_rest(task_name, name):
    config = LoaderConfig(
        mixture=task_name, batch_size=8, inputs_length=48, targets_length=64, layout="decoder"
    )
    batch = next(build_loader(config))
    assert batch.encoder_input_tokens is None
    learned, prefix = batch.loss_weights > 0, batch.prefix > 0
    real = batch.decoder_segment_ids > 0
    assert (learned | prefix == real).all()
    # The first target is predicted from the last input token, so one token of each example is input and target.
    assert (learned & prefix).sum() == batch.decoder_segment_ids.max(axis=1).sum()
