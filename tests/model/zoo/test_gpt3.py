"""GPT-3: GPT-2 with bands, which no other program reads."""

from pathlib import Path

import jax
import pytest

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.zoo import gpt3
from t5x_like.model.zoo.gpt2 import GPT2
from t5x_like.model.zoo.gpt3 import GPT3
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden, worst_difference


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    """The recorded GPT-2, each of its layers by itself."""
    read = read_golden(golden / "models/gpt2", GPT2, lambda config: config.decoder)
    layers = read.params["decoder"]["layers"]["0"]
    alone = {
        str(layer): jax.tree.map(lambda array, layer=layer: array[layer : layer + 1], layers)
        for layer in range(3)
    }
    return read._replace(params={**read.params, "decoder": {**read.params["decoder"], "layers": alone}})


@pytest.fixture(scope="module")
def sizes(golden: Path) -> dict[str, int]:
    """Those of the recorded GPT-2."""
    fields = fields_of(golden / "models/gpt2")
    return {
        "vocab_size": fields["vocab_size"],
        "model_dim": fields["n_embd"],
        "mlp_dim": 4 * fields["n_embd"],
        "num_heads": fields["n_head"],
        "head_dim": fields["n_embd"] // fields["n_head"],
        "max_position_embeddings": fields["n_positions"],
    }


SIZES = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 2, "head_dim": 4}


def config_of(band: int, num_layers: int = 3, **sizes: int) -> gpt3.GPT3Config:
    return gpt3.GPT3Config(**SIZES | sizes, num_layers=num_layers, band=band)


def test_with_bands_as_wide_as_the_text_it_is_gpt2(model: GoldenModel, sizes: dict[str, int]) -> None:
    assert worst_difference(model, config_of(band=64, **sizes).decoder) < 2e-5


def test_bands_matter(model: GoldenModel, sizes: dict[str, int]) -> None:
    assert worst_difference(model, config_of(band=5, **sizes).decoder) > 1e-3


def test_dense_and_banded_layers_take_turns() -> None:
    stack = config_of(band=5, num_layers=4).decoder.stack
    assert [block.attention.window for block in stack.blocks] == [None, SlidingWindow(left=4)] * 2
    assert stack.layer_pattern.slots == ((0, 2), (1, 3))


def test_there_is_no_form_to_export(tmp_path: Path) -> None:
    config = config_of(band=5)
    model = parameters.merge(*parameters.split(jax.eval_shape(config.build, jax.random.key(0))))
    with pytest.raises(ValueError, match="transformers has no GPT-3: gpt2 has no banded layers"):
        t5x_like.export_hugging_face(model, tmp_path / "out", config=config)
    assert not any(tmp_path.iterdir())


def test_there_is_no_form_to_read_or_write() -> None:
    with pytest.raises(ValueError, match="train a gpt2 or gpt_neo"):
        GPT3.from_hugging_face({"model_type": "gpt3"})
    with pytest.raises(ValueError, match="train a gpt2 or gpt_neo"):
        GPT3.to_hugging_face(config_of(band=5))
