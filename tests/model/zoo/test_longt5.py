"""LongT5: every trait matters, and no field of its config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.transient_global import TransientGlobalConfig
from t5x_like.model.zoo.longt5 import LONGT5
from tests.model.zoo.golden_encoder_decoders import logits_of, worst_difference
from tests.model.zoo.golden_models import GoldenModel, read_golden

FIELDS: dict[str, Any] = {
    "model_type": "longt5",
    "vocab_size": 8,
    "d_model": 8,
    "d_ff": 16,
    "d_kv": 4,
    "num_heads": 2,
    "num_layers": 1,
}


@pytest.fixture(scope="module")
def local(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/longt5_local", LONGT5, lambda config: config.encoder_decoder)


@pytest.fixture(scope="module")
def transient(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/longt5_tglobal", LONGT5, lambda config: config.encoder_decoder)


def with_encoder_blocks(family: Any, change: Callable[[Any], Any]) -> Any:
    blocks = tuple(map(change, family.encoder.blocks))
    return dataclasses.replace(family, encoder=dataclasses.replace(family.encoder, blocks=blocks))


def with_window(family: Any, window: SlidingWindow | None) -> Any:
    return with_encoder_blocks(
        family,
        lambda block: dataclasses.replace(
            block, attention=dataclasses.replace(block.attention, window=window)
        ),
    )


def with_summaries(family: Any, **changes: Any) -> Any:
    summaries = {"block_size": 5, "positions": RelativeBuckets()} | changes
    return with_encoder_blocks(
        family,
        lambda block: dataclasses.replace(block, transient_global=TransientGlobalConfig(**summaries)),
    )


@pytest.mark.parametrize("window", [None, SlidingWindow(left=6, right=6), SlidingWindow(left=7, right=8)])
def test_the_window_matters(local: GoldenModel, window: SlidingWindow | None) -> None:
    assert worst_difference(local, local.family) < 2e-5
    assert worst_difference(local, with_window(local.family, window)) > 1e-3


def test_blocks_and_a_mask_give_the_same_scores(local: GoldenModel) -> None:
    """A radius of 7 cuts 37 tokens into blocks, padding among them; of 20 all pairs are computed, and masked."""
    tokens, mask = local.recorded["in_input_ids"], local.recorded["in_attention_mask"].copy()
    mask[:, 20:] = 0
    in_blocks = logits_of(local, local.family, encoder_segment_ids=mask)
    in_full = logits_of(
        local, local.family, encoder_input_tokens=tokens[:, :20], encoder_segment_ids=mask[:, :20]
    )
    np.testing.assert_allclose(in_blocks, in_full, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "changes", [{"block_size": 4}, {"positions": RelativeBuckets(num_buckets=8, max_distance=20)}]
)
def test_summaries_matter(transient: GoldenModel, changes: dict[str, Any]) -> None:
    assert worst_difference(transient, with_summaries(transient.family)) < 2e-5
    assert worst_difference(transient, with_summaries(transient.family, **changes)) > 1e-3


def test_the_norm_of_summaries_matters(transient: GoldenModel) -> None:
    flat = parameters.flatten(transient.params)
    path = "encoder/layers/0/transient_global/norm/scale"
    halved = transient._replace(params=parameters.unflatten(flat | {path: 0.5 * flat[path]}))
    assert worst_difference(halved, halved.family) > 1e-3


@pytest.mark.parametrize("attention", ["local", "transient-global"])
@pytest.mark.parametrize("architecture", list(LONGT5.classes))
def test_what_is_read_is_written(attention: str, architecture: str) -> None:
    fields = {**FIELDS, "encoder_attention_type": attention, "architectures": [architecture]}
    config = LONGT5.from_hugging_face(fields)
    assert (config.local_radius, config.tie_word_embeddings) == (127, True)
    assert config.global_block_size == (None if attention == "local" else 16)
    assert LONGT5.from_hugging_face(LONGT5.to_hugging_face(config)) == config
    named = {path for row in LONGT5.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


def test_an_encoder_alone_is_no_encoder_decoder() -> None:
    alone = {**FIELDS, "architectures": ["LongT5EncoderModel"]}
    assert LONGT5.from_hugging_face({**alone, "is_encoder_decoder": False}) == LONGT5.from_hugging_face(alone)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"encoder_attention_type": "global"}, "encoder_attention_type is 'global'; local, transient-global"),
        ({"architectures": ["LongT5ForQuestions"]}, "no head for LongT5ForQuestions"),
        ({"global_memory": 4}, "global_memory = 4 is not known"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LONGT5.from_hugging_face({**FIELDS, **wrong})
