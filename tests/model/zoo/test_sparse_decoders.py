"""Mixtral, OLMoE, Qwen 3 MoE and DeepSeek-V3: every option matters, and no field of a config.json is overlooked."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from t5x_like.batch import Batch
from t5x_like.model import named_activations, parameters
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.rotary import Rotary, YarnScaling
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.deepseek_v3 import DEEPSEEK_V3, DeepseekV3Config
from t5x_like.model.zoo.mixtral import MIXTRAL, MixtralConfig
from t5x_like.model.zoo.olmoe import OLMOE, OlmoeConfig
from t5x_like.model.zoo.qwen3_moe import QWEN3_MOE, Qwen3MoeConfig
from t5x_like.model.zoo.weights import read_weights, source_of
from tests.model.zoo.golden_models import (
    SMALL_FIELDS,
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_blocks,
    with_rotation,
    worst_difference,
)
from tests.references import FIXTURES

FIELDS = {**SMALL_FIELDS, "num_hidden_layers": 4, "num_attention_heads": 4}
MODELS = {"mixtral": MIXTRAL, "olmoe": OLMOE, "qwen3_moe": QWEN3_MOE, "deepseek_v3": DEEPSEEK_V3}
SIZE: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 4, "num_layers": 4}
FEW: dict[str, Any] = {"num_experts": 4, "num_experts_per_token": 2}


@functools.cache
def golden(name: str) -> GoldenModel:
    return read_golden(FIXTURES / "models" / name, MODELS[name], lambda config: config.decoder)


def with_experts(family: Any, **changes: Any) -> Any:
    """The same with all layers of experts changed."""

    def change(block: Any) -> Any:
        if not hasattr(block.feed_forward, "num_experts"):
            return block
        return dataclasses.replace(block, feed_forward=dataclasses.replace(block.feed_forward, **changes))

    return with_blocks(family, change)


def with_router(family: Any, **changes: Any) -> Any:
    """The same with all routers changed."""
    router = next(b.feed_forward.router for b in family.stack.blocks if hasattr(b.feed_forward, "router"))
    return with_experts(family, router=dataclasses.replace(router, **changes))


@pytest.mark.parametrize("name", MODELS)
def test_unchanged_options_give_the_recorded_logits(name: str) -> None:
    model = golden(name)
    assert worst_difference(model, model.family) < 2e-5


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "mixtral: gates as they are": ("mixtral", lambda family: with_router(family, norm_topk_prob=False)),
    "mixtral: one expert": ("mixtral", lambda family: with_experts(family, num_experts_per_token=1)),
    "mixtral: dropped tokens": ("mixtral", lambda family: with_experts(family, capacity_factor=0.5)),
    "mixtral: wider window": (
        "mixtral",
        lambda family: with_attention(family, window=SlidingWindow(left=5)),
    ),
    "olmoe: normed gates": ("olmoe", lambda family: with_router(family, norm_topk_prob=True)),
    "olmoe: no clip": ("olmoe", lambda family: with_attention(family, clip_qkv=None)),
    "olmoe: fewer experts": ("olmoe", lambda family: with_experts(family, num_experts_per_token=2)),
    "qwen3_moe: gates as they are": ("qwen3_moe", lambda family: with_router(family, norm_topk_prob=False)),
    "deepseek_v3: no groups": ("deepseek_v3", lambda family: with_router(family, n_group=1, topk_group=1)),
    "deepseek_v3: unscaled": ("deepseek_v3", lambda family: with_router(family, routed_scaling_factor=1.0)),
    "deepseek_v3: gates as they are": (
        "deepseek_v3",
        lambda family: with_router(family, norm_topk_prob=False),
    ),
    "deepseek_v3: scale without mscale": (
        "deepseek_v3",
        lambda family: with_attention(family, attention_scale=None),
    ),
    "deepseek_v3: pairs of halves": ("deepseek_v3", lambda family: with_rotation(family, interleaved=False)),
    "deepseek_v3: no scaling of positions": (
        "deepseek_v3",
        lambda family: with_rotation(family, rope_scaling=None),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_option_matters(change: str) -> None:
    name, changed = CHANGES[change]
    model = golden(name)
    assert worst_difference(model, changed(model.family)) > 1e-3


def test_the_bias_that_chooses_experts_matters() -> None:
    model = golden("deepseek_v3")
    flat = parameters.flatten(model.params)
    unbiased = {path: 0 * leaf if path.endswith("correction_bias") else leaf for path, leaf in flat.items()}
    assert any(path.endswith("correction_bias") for path in flat)
    changed = model._replace(params=parameters.unflatten(unbiased))
    assert worst_difference(changed, model.family) > 1e-3


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        (MIXTRAL, MixtralConfig(**{**SIZE, "model_dim": 16, "num_heads": 8}, num_kv_heads=8)),
        (OLMOE, OlmoeConfig(**SIZE, num_kv_heads=4)),
        (QWEN3_MOE, Qwen3MoeConfig(**SIZE, num_kv_heads=4)),
        (DEEPSEEK_V3, DeepseekV3Config(**SIZE)),
    ],
    ids=list(MODELS),
)
def test_absent_fields_have_the_defaults_of_transformers(architecture: Architecture, expected: Any) -> None:
    fields = {**FIELDS, "num_attention_heads": expected.num_heads, "hidden_size": expected.model_dim}
    config = architecture.from_hugging_face(fields)
    assert dataclasses.replace(config, task=expected.task) == expected
    assert architecture.from_hugging_face(architecture.to_hugging_face(config)) == config


@pytest.mark.parametrize("name", MODELS)
def test_every_field_of_the_recorded_model_is_written_and_read_again(name: str) -> None:
    fields = fields_of(FIXTURES / "models" / name)
    config = MODELS[name].from_hugging_face(fields)
    written = MODELS[name].to_hugging_face(config)
    assert MODELS[name].from_hugging_face(written) == config
    skipped = {"rope_parameters", "dtype", "use_cache", "transformers_version", "initializer_range"}
    skipped |= {"output_router_logits", "router_jitter_noise", "pretraining_tp"}
    skipped |= {"bos_token_id", "eos_token_id", "pad_token_id"}
    assert {field: written.get(field) for field in fields.keys() - skipped} == {
        field: fields[field] for field in fields.keys() - skipped
    }


@pytest.mark.parametrize("name", MODELS)
def test_both_names_of_the_number_of_experts_are_read(name: str) -> None:
    fields = fields_of(FIXTURES / "models" / name)
    own = next(field for field in ("n_routed_experts", "num_experts", "num_local_experts") if field in fields)
    other = "num_experts" if own == "num_local_experts" else "num_local_experts"
    number = fields.pop(own)
    assert MODELS[name].from_hugging_face({**fields, other: number}).num_experts == number
    with pytest.raises(ValueError, match=f"{other} is {number + 1}"):
        MODELS[name].from_hugging_face({**fields, own: number, other: number + 1})


@pytest.mark.parametrize("name", MODELS)
def test_files_with_joined_experts_are_read_as_the_same_weights(name: str) -> None:
    directory = FIXTURES / "models" / name
    arrays = load_file(directory / "model.safetensors")
    config = MODELS[name].from_hugging_face(fields_of(directory))
    spelled = ("w1", "w3", "w2") if name == "mixtral" else ("gate_proj", "up_proj", "down_proj")
    layer_name = "block_sparse_moe" if name == "mixtral" else "mlp"
    joined = dict(arrays)
    for layer in range(config.num_layers):
        own = f"model.layers.{layer}.{layer_name}"
        if f"{own}.gate.weight" not in arrays:
            continue
        gate, up, down = (
            np.stack([joined.pop(f"{own}.experts.{e}.{part}.weight") for e in range(config.num_experts)])
            for part in spelled
        )
        joined[f"model.layers.{layer}.mlp.experts.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        joined[f"model.layers.{layer}.mlp.experts.down_proj"] = down
        joined[f"model.layers.{layer}.mlp.gate.weight"] = joined.pop(f"{own}.gate.weight")
    separate = MODELS[name].separate
    assert separate is not None
    source = separate(source_of(joined, "joined"))
    assert source.shapes.keys() == arrays.keys()
    for published, array in arrays.items():
        np.testing.assert_array_equal(source.read(published), array)


def test_a_part_of_stacked_experts_is_read_alone() -> None:
    directory = FIXTURES / "models" / "mixtral"
    arrays = load_file(directory / "model.safetensors")
    config, read = MIXTRAL.from_hugging_face(fields_of(directory)), []
    source = source_of(arrays, "here")
    source = source._replace(read=lambda name: read.append(name) or arrays[name])
    lazy = read_weights(
        MIXTRAL.hugging_face_weights(config),
        parameters.abstract(config)[1],
        source,
        place=lambda _, array: array,
    )
    kernel = parameters.flatten(lazy)["decoder/layers/0/feed_forward/experts/down/kernel"]
    part = kernel[(slice(1, 2), slice(2, 4), slice(0, 5), slice(None))]
    names = [f"model.layers.1.block_sparse_moe.experts.{expert}.w2.weight" for expert in (2, 3)]
    assert read == names
    np.testing.assert_array_equal(part[0], [arrays[name].T[:5] for name in names])


def test_the_balance_loss_is_counted_as_transformers_does() -> None:
    """Its formula pools the layers; of one layer it is the same."""
    config = OlmoeConfig(**{**SIZE, "num_layers": 1}, num_experts=4, num_experts_per_token=3)
    model = config.build(jax.random.key(0))
    ids = jax.random.randint(jax.random.key(1), (2, 30), 0, 8)
    batch = Batch(decoder_input_tokens=ids, decoder_segment_ids=jnp.ones_like(ids))
    with named_activations.record(("decoder/feed_forward/inputs",)) as captured:
        loss = model(batch).routing.loss
    router = model.decoder.layers["0"].feed_forward.router.kernel[0]
    logits = np.asarray(captured["decoder/feed_forward/inputs"][0] @ router).reshape(-1, 4)
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    counts = np.bincount(np.argsort(-probs)[:, :3].ravel(), minlength=4) / len(logits)
    assert float(loss) == pytest.approx(0.01 * 4 * np.sum(counts * probs.mean(0)), rel=1e-5)


def test_scores_of_decoding_from_latent_vectors_are_those_of_whole_rows() -> None:
    model = golden("deepseek_v3")
    graphdef, _ = parameters.split(jax.eval_shape(model.family.build, jax.random.key(0)))
    ids = jnp.asarray(model.recorded["in_input_ids"][:1, :12])

    def decode(params: Any) -> jax.Array:
        decoder = parameters.merge(graphdef, params)
        _, cache = decoder.start_cache(ids[:, :5], max_new_tokens=8)
        assert [each.own.keys.shape[-1] for each in cache.layers] == [4] * len(cache.layers)
        assert [each.own.values.shape[-1] for each in cache.layers] == [12] * len(cache.layers)
        scores = []
        for place in range(4, 12):
            logits, cache = decoder.decode_step(ids[:, place], cache)
            scores.append(logits)
        return jnp.stack(scores, axis=1)

    whole = jax.jit(
        lambda params: (
            parameters.merge(graphdef, params)(
                Batch(decoder_input_tokens=ids, decoder_segment_ids=jnp.ones_like(ids))
            ).logits
        )
    )(model.params)
    np.testing.assert_allclose(jax.jit(decode)(model.params), whole[:, 4:], rtol=0, atol=3e-5)


@pytest.mark.parametrize("implementation", ["blockwise", "pallas"])
def test_latent_attention_is_the_same_in_blocks(implementation: str) -> None:
    model = golden("deepseek_v3")
    stack = dataclasses.replace(model.family.stack, attention_implementation=implementation)
    assert worst_difference(model, dataclasses.replace(model.family, stack=stack)) < 3e-5


def test_yarn_takes_both_mscales_or_the_ratio_of_lengths() -> None:
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "original_max_position_embeddings": 16}
    fields = {**FIELDS, "max_position_embeddings": 128}
    both = {**yarn, "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5}
    config = DEEPSEEK_V3.from_hugging_face({**fields, "rope_parameters": both})
    assert isinstance(config.rope_scaling, YarnScaling)
    assert config.rope_scaling.growth == pytest.approx(
        (0.1 * np.log(4) + 1) / (0.05 * np.log(4) + 1), rel=1e-6
    )
    assert config.latent_attention.scale == pytest.approx(192**-0.5 * (0.05 * np.log(4) + 1) ** 2, rel=1e-6)
    null = DEEPSEEK_V3.from_hugging_face({**fields, "rope_parameters": {**yarn, "factor": None}})
    assert null.rope_scaling == YarnScaling(factor=8.0, original_max_position_embeddings=16)


@pytest.mark.parametrize(
    ("architecture", "wrong", "message"),
    [
        (DEEPSEEK_V3, {"scoring_func": "softmax"}, "scoring_func"),
        (DEEPSEEK_V3, {"topk_method": "greedy"}, "topk_method"),
        (DEEPSEEK_V3, {"num_key_value_heads": 2}, "num_key_value_heads is 2; latent attention"),
        (DEEPSEEK_V3, {"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        (DEEPSEEK_V3, {"n_group": 6}, "n_group=6 can't share out num_experts=256"),
        (QWEN3_MOE, {"mlp_only_layers": [0, 1, 2, 3]}, "leave no sparse layer"),
        (QWEN3_MOE, {"mlp_only_layers": [4]}, "mlp_only_layers has 4; layers are numbered 0 to 3"),
        (OLMOE, {"clip_qkv": -1.0}, "clip_qkv is -1.0"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "give at least num_experts_per_token, 9"),
    ],
)
def test_what_we_cant_express_is_named(
    architecture: Architecture, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        architecture.from_hugging_face({**FIELDS, "hidden_size": 16, "num_attention_heads": 8, **wrong})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DeepseekV3Config(**SIZE, head_dim=8), "head_dim=8 has no effect"),
        (lambda: DeepseekV3Config(**SIZE, num_kv_heads=2), "num_kv_heads=2 has no effect"),
        (lambda: DeepseekV3Config(**SIZE, first_k_dense_replace=4), "leaves no sparse layer among 4"),
        (lambda: Qwen3MoeConfig(**SIZE, **FEW, sparse_step=5), "leave no sparse layer among 4"),
    ],
)
def test_settings_without_a_layer_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_dense_layers_are_those_that_transformers_makes_dense() -> None:
    config = Qwen3MoeConfig(**{**SIZE, "num_layers": 6}, **FEW, sparse_step=2, mlp_only_layers=(3,))
    assert [config.is_sparse(layer) for layer in range(6)] == [False, True, False, False, False, True]
    deep = DeepseekV3Config(**SIZE)
    assert [deep.is_sparse(layer) for layer in range(4)] == [False, False, False, True]
    assert deep.rotary == Rotary(rotated_dim=64, interleaved=True)
