"""GGUF files that were written are read with the same weights, configuration and special ids."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.model import parameters
from t5x_like.model.layers.rotary import LinearScaling, Llama3Scaling, YarnScaling
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.mistral import MistralConfig
from t5x_like.pretrained.gguf_export import write_gguf
from t5x_like.pretrained.hugging_face import find_hugging_face
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import write

LLAMA = LlamaConfig(vocab_size=61, model_dim=32, mlp_dim=64, num_heads=4, num_kv_heads=2, num_layers=2)
LLAMA3 = Llama3Scaling(
    factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192
)

gguf = pytest.importorskip("gguf")


def made(config):
    params = jax.jit(lambda key: parameters.split(config.build(key))[1])(jax.random.key(0))
    # Norms and biases begin as ones and zeros, which would look alike wherever they were put.
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: leaf + rng.normal(0, 0.1, leaf.shape).astype(np.float32), params)


@pytest.mark.parametrize(
    "config",
    [
        LLAMA,
        pytest.param(
            replace(LLAMA, tie_word_embeddings=True, head_dim=10, attention_bias=True, mlp_bias=True),
            marks=pytest.mark.slow,
        ),
        replace(LLAMA, rope_scaling=LLAMA3, rope_theta=500_000.0),
        replace(LLAMA, rope_scaling=LinearScaling(factor=4.0)),
        pytest.param(TINY["qwen2"], marks=pytest.mark.slow),
        TINY["qwen3"],
    ],
    ids=["llama", "biases", "llama3", "linear", "qwen2", "qwen3"],
)
def test_a_written_file_is_read_back_equal(tmp_path, config):
    params = made(config)
    write_gguf(
        config,
        params,
        tmp_path / "m.gguf",
        special_ids=SpecialTokenIds(pad=3, eos=2, bos=1, further_eos=(7,)),
    )
    weights = find_hugging_face(tmp_path / "m.gguf")
    ids = {name: weights.fields[f"{name}_token_id"] for name in ("bos", "eos", "pad")}
    assert ids == {"bos": 1, "eos": 2, "pad": 3}
    free = {"num_kv_heads": config.num_kv_heads or config.num_heads, "dropout_rate": 0.0}
    expected = replace(config, **free, head_dim=weights.config.head_dim)
    assert weights.config == expected
    assert weights.config.resolved_head_dim == config.resolved_head_dim
    read = parameters.flatten(weights.read())
    for path, leaf in parameters.flatten(params).items():
        rows = weights.config.vocab_size if "tokens/table" in path else None
        columns = weights.config.vocab_size if "lm_head/projection" in path else None
        index = (slice(rows), slice(columns))[: leaf.ndim] if leaf.ndim == 2 else ()
        np.testing.assert_array_equal(np.asarray(read[path])[index], np.asarray(leaf)[index], err_msg=path)
    assert [file.name for file in tmp_path.iterdir()] == ["m.gguf"]


def test_convert_writes_a_run_as_gguf(tmp_path, capsys):
    write(LLAMA, tmp_path / "model")
    convert = ["convert", "--from", str(tmp_path / "model"), "--to", str(tmp_path / "run")]
    assert main(convert) == 0
    export = ["convert", "--from", str(tmp_path / "run"), "--to", str(tmp_path / "out"), "--dtype", "q8_0"]
    assert main([*export, "--export", "hf"]) == 2
    assert "--dtype q8_0 is for --export gguf" in capsys.readouterr().err
    assert main([*export, "--export", "gguf"]) == 0
    ids = np.arange(3, 12)[None]
    weights = t5x_like.from_pretrained(tmp_path / "out/model.gguf")
    exact = t5x_like.from_pretrained(tmp_path / "run")(ids).logits
    np.testing.assert_allclose(weights(ids).logits, exact, atol=0.02 * float(np.abs(exact).max()) + 0.02)


@pytest.mark.parametrize(("dtype", "error"), [("float16", 2e-3), ("bfloat16", 2e-2), ("q8_0", 2e-2)])
def test_smaller_types_are_near(tmp_path, dtype, error):
    pretrained = t5x_like.from_pretrained(write(LLAMA, tmp_path / "model"))
    t5x_like.export_gguf(pretrained, tmp_path / "m.gguf", dtype=dtype)
    ids = np.arange(3, 12)[None]
    weights = t5x_like.from_pretrained(tmp_path / "m.gguf")(ids).logits
    exact = pretrained(ids).logits
    assert not np.array_equal(weights, exact)
    np.testing.assert_allclose(weights, exact, atol=error * float(np.abs(exact).max()) + error)
    kinds = {tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "m.gguf").tensors}
    assert kinds == {"F32", {"float16": "F16", "bfloat16": "BF16", "q8_0": "Q8_0"}[dtype]}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TINY["gpt2"], "a gpt2 model for causal_lm can't be written as GGUF; causal language models of llama"),
        (replace(LLAMA, task="base"), "a llama model for base can't"),
        (replace(LLAMA, activation="gelu"), "GGUF can't express hidden_act: 'gelu'; nothing was written"),
        (replace(LLAMA, rope_scaling=YarnScaling(factor=2.0, original_max_position_embeddings=8)), "rope_scaling"),
        (TINY["mistral"], "sliding_window: 4"),
    ],
)  # fmt: skip
def test_what_gguf_cannot_express_is_refused(tmp_path, config, message):
    with pytest.raises(ValueError, match=message):
        write_gguf(config, made(config), tmp_path / "m.gguf")
    assert not list(tmp_path.iterdir())


def test_a_mistral_without_a_window_is_a_llama(tmp_path):
    config = MistralConfig(
        vocab_size=61,
        model_dim=32,
        mlp_dim=64,
        num_heads=4,
        num_kv_heads=2,
        num_layers=1,
        sliding_window=None,
    )
    write_gguf(config, made(config), tmp_path / "m.gguf")
    assert isinstance(find_hugging_face(tmp_path / "m.gguf").config, LlamaConfig)
    with pytest.raises(ValueError, match="exists already; nothing was written"):
        write_gguf(config, made(config), tmp_path / "m.gguf")
