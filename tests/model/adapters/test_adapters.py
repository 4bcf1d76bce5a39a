"""Adapters on every architecture: fresh ones change nothing, all their weights learn, and merging keeps outputs."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.adapters import IA3, BottleneckAdapter, LoRA, PrefixTuning, PromptTuning
from t5x_like.model.adapters.adapter_weights import (
    adapter_paths,
    draw_adapter,
    merge_adapter,
    trainable_by_default,
)
from t5x_like.model.families.family import Predictions
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.state import plan_state
from tests.model.zoo.tiny_models import TINY
from tests.training.test_every_architecture import batch_for, losses

LINEARS = ("*/query", "*/value", "*/out", "*/up", "*/down")
EVERY: dict[str, Any] = {
    "lora": LoRA(rank=2, alpha=4.0, targets=LINEARS),
    "dora": LoRA(rank=2, alpha=4.0, targets=LINEARS, dora=True),
    "ia3": IA3(),
    "bottleneck": BottleneckAdapter(inner_dim=4, after=("attention", "feed_forward")),
    "prefix": PrefixTuning(length=3, hidden_dim=5),
    "prefix_direct": PrefixTuning(length=3, hidden_dim=None),
    "prompt": PromptTuning(length=3),
}
# These run every time, the others when slow tests do.
ALWAYS = {("llama", "lora")}
WITHOUT_PROMPT = ("transfo_xl", "xlnet")


def pairs(*adapters: str, always=ALWAYS) -> list[Any]:
    return [
        pytest.param(name, adapter, marks=() if (name, adapter) in always else pytest.mark.slow)
        for name in TINY
        for adapter in adapters
        if name not in ("awd_lstm", "bcn", "bilstm", "elmo", "rnn_seq2seq")  # which refuse them
        if not (adapter == "prompt" and name in WITHOUT_PROMPT)
    ]


def batch_of(config) -> Batch:
    """One example in each row, for virtual tokens belong to one."""
    batch = batch_for(config, 0)
    ones = {
        name: (np.asarray(getattr(batch, name)) > 0).astype(np.int32)
        for name in ("encoder_segment_ids", "decoder_segment_ids")
        if getattr(batch, name) is not None
    }
    return batch._replace(**ones)


def weights(config, seed: int = 0):
    return parameters.split(jax.jit(config.build)(jax.random.key(seed)))[1]


def outputs(config, params, batch) -> dict[str, np.ndarray]:
    graphdef = parameters.abstract(config)[0]

    @jax.jit
    def run(params, batch) -> Predictions:
        return parameters.merge(graphdef, params)(batch)

    result = run(params, jax.tree.map(jnp.asarray, batch))
    named = {"logits": result.logits, "encoder": result.encoder_output, "decoder": result.decoder_output}
    named |= {f"heads/{name}": scores for name, scores in (result.heads or {}).items()}
    return {name: np.asarray(array) for name, array in named.items() if array is not None}


def disturbed(config, params, scale: float = 0.1):
    """Adapter weights away from where they start."""
    flat = parameters.flatten(params)
    for index, path in enumerate(sorted(adapter_paths(config))):
        noise = jax.random.normal(jax.random.key(index), flat[path].shape)
        flat[path] = flat[path] + scale * noise
    return parameters.unflatten(flat)


@pytest.mark.parametrize(("name", "adapter"), pairs("lora", "ia3", "bottleneck"))
def test_a_fresh_adapter_changes_no_output_and_then_it_does(name, adapter):
    base = TINY[name]
    config, batch = replace(base, adapter=EVERY[adapter]), batch_of(base)
    params = weights(config)
    own = parameters.flatten(params)
    without = {path: leaf for path, leaf in own.items() if path not in adapter_paths(config)}
    assert without.keys() == parameters.flatten(parameters.abstract(base)[1]).keys()
    # Operation by operation: a compiled program with an adapter in it may be fused, and so rounded, in another way.
    with jax.disable_jit():
        plain = outputs(base, parameters.unflatten(without), batch)
        fresh, tuned = outputs(config, params, batch), outputs(config, disturbed(config, params), batch)
    for output, array in plain.items():
        np.testing.assert_array_equal(fresh[output], array, err_msg=output)
        assert np.abs(tuned[output] - array).max() > 1e-5, output


@pytest.mark.parametrize(
    ("name", "adapter"),
    pairs(*EVERY, always={("bert", "bottleneck"), ("t5_1_0", "prompt")}),
)
def test_every_weight_of_an_adapter_gets_a_gradient(name, adapter):
    config = replace(TINY[name], adapter=EVERY[adapter])
    graphdef, batch = parameters.abstract(config)[0], batch_of(TINY[name])
    paths = adapter_paths(config)

    @jax.jit
    @jax.grad
    def gradients(params, batch):
        result = parameters.merge(graphdef, params)(batch)
        outputs = [result.logits, *(result.heads or {}).values()]
        return sum(jnp.sum(jnp.sin(each * (each > -1e9))) for each in outputs if each is not None)

    result = parameters.flatten(gradients(disturbed(config, weights(config)), batch))
    assert paths
    without = [path for path in paths if not np.abs(result[path]).max() > 0]
    assert without == []
    assert all(np.isfinite(result[path]).all() for path in paths)


@pytest.mark.parametrize(
    ("name", "adapter"), pairs("lora", "dora", "ia3", always={("bert", "dora"), ("gpt2", "ia3")})
)
def test_a_merged_adapter_computes_the_same(name, adapter):
    config, batch = replace(TINY[name], adapter=EVERY[adapter]), batch_of(TINY[name])
    params = disturbed(config, weights(config))
    merged_config, merged = merge_adapter(config, params)
    assert merged_config == TINY[name]
    shapes = parameters.flatten(parameters.abstract(TINY[name])[1])
    assert parameters.flatten(merged).keys() == shapes.keys()
    expected, result = outputs(config, params, batch), outputs(merged_config, merged, batch)
    for output, array in expected.items():
        np.testing.assert_allclose(result[output], array, atol=2e-4, rtol=2e-4, err_msg=output)


@pytest.mark.parametrize("adapter", ["bottleneck", "prefix", "prompt"])
def test_others_cannot_be_merged(adapter):
    config = replace(TINY["bert"], adapter=EVERY[adapter])
    with pytest.raises(
        ValueError, match=rf"{type(EVERY[adapter]).__name__} adds .* can't be merged.*LoRA or IA3"
    ):
        merge_adapter(config, weights(config))


@pytest.mark.slow
@pytest.mark.parametrize(
    "adapter", ["lora", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ia3", "bottleneck"))]
)
def test_a_fresh_adapter_changes_nothing_in_bfloat16_either(adapter):
    base = replace(TINY["distilbert"], compute_dtype="bfloat16")
    config, batch = replace(base, adapter=EVERY[adapter]), batch_of(base)
    params = weights(config)
    own = {
        path: leaf for path, leaf in parameters.flatten(params).items() if path not in adapter_paths(config)
    }
    plain, fresh = outputs(base, parameters.unflatten(own), batch), outputs(config, params, batch)
    for output, array in plain.items():
        np.testing.assert_array_equal(fresh[output], array, err_msg=output)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "adapter"),
    [
        ("bert", "lora"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (("switch", "lora"), ("llama", "ia3"), ("t5_1_0", "prefix"), ("gpt2", "bottleneck"))
        ),
    ],
)
def test_an_adapter_trains_on_eight_devices_as_on_one(name, adapter):
    config = replace(TINY[name], adapter=EVERY[adapter], remat="full")
    one = losses(config, num_devices=1, mesh_config=MeshConfig())
    eight = losses(config, num_devices=8, mesh_config=MeshConfig(data=2, fsdp=2, model=2))
    assert one[-1] < one[0]
    np.testing.assert_allclose(eight, one, rtol=2e-5)


@pytest.mark.slow
def test_layers_and_experts_draw_their_own_updates():
    config = replace(TINY["switch"], adapter=LoRA(rank=2, targets=("*/down",)))
    config = replace(config, num_encoder_layers=4)
    flat = parameters.flatten(weights(config))
    a = flat["encoder/layers/1/feed_forward/experts/down/lora/a"]
    assert a.shape == (2, 4, 48, 2)
    assert len(np.unique(np.asarray(a).reshape(8, -1)[:, 0])) == 8


def test_only_adapter_and_new_heads_train():
    bert = replace(TINY["bert"], task="sequence_classification", adapter=LoRA(rank=2))
    assert trainable_by_default(bert) == ("*/lora/*", "heads/scores/*", "heads/pooler/*")
    assert trainable_by_default(TINY["bert"]) == ("*",)
    t5 = replace(TINY["t5_1_0"], adapter=BottleneckAdapter(inner_dim=4))
    shapes = parameters.abstract(t5)[1]
    selection = parameters.select(shapes, trainable_by_default(t5))
    trained, frozen = map(parameters.flatten, parameters.partition(shapes, selection))
    assert {path.rpartition("/")[2] for path in trained} == {"kernel", "bias", "scale"}
    assert all("/adapter/" in path or "norm" in path or "/before/" in path for path in trained)
    assert not any("norm" in path or "/before/" in path for path in frozen)


@pytest.mark.parametrize(
    ("adapter", "num_trained"),
    [(None, 6_738_415_616), (LoRA(rank=8), 4_194_304), (IA3(), 614_400), (PromptTuning(length=20), 81_920)],
)
def test_memory_of_tuning_llama_7b_follows_the_trained_weights(adapter, num_trained):
    """The counts are those that peft prints for the same settings."""
    config = LlamaConfig(vocab_size=32_000, model_dim=4096, mlp_dim=11_008, num_heads=32, num_layers=32)
    config = replace(config, adapter=adapter)
    mesh = MeshConfig(data=1).build(jax.devices()[:1])
    trainable = trainable_by_default(config)
    state = plan_state(config, AdamW(), mesh, num_tasks=1, trainable=trainable).abstract
    sizes = {name: sum(leaf.size for leaf in jax.tree.leaves(state[name])) for name in state}
    assert sizes["params"] == num_trained
    assert sizes["params"] + sizes["frozen"] == 6_738_415_616 + (num_trained if adapter else 0)
    assert sizes["opt_state"] == pytest.approx(2 * num_trained, abs=10)


def test_adapters_that_need_a_base_start_from_its_weights():
    config = replace(TINY["bert"], adapter=PromptTuning(length=4))
    base = weights(TINY["bert"], seed=7)
    drawn = draw_adapter(config, base, jax.random.key(0))
    vectors = np.asarray(drawn["embedding/prompt/vectors"])
    table = np.asarray(base["embedding"]["tokens"]["table"])
    assert all((table == vector).all(axis=-1).any() for vector in vectors)


@pytest.mark.slow
def test_dropout_of_updates_differs_by_layer_module_expert_and_step():
    """With inner weights of 1, an update's output is a count of the inputs that its own mask leaves."""
    config = replace(
        TINY["switch"],
        dropout_rate=0.0,
        adapter=LoRA(rank=1, targets=("*/query", "*/down"), dropout_rate=0.5),
    )
    params = disturbed(config, weights(config), scale=0.3)
    graphdef, batch = parameters.abstract(config)[0], batch_of(TINY["switch"])

    @jax.jit
    def run(params, batch, key):
        return parameters.merge(graphdef, params)(batch, dropout_key=key).logits

    one, same, other = (run(params, batch, jax.random.key(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-4
    assert np.abs(one - outputs(config, params, batch)["logits"]).max() > 1e-4


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        (LoRA(targets=("*/queries",)), r"targets='\*/queries' matches no linear layer.*self_attention/query"),
        (LoRA(targets=("*/q_proj",)), r"Layers are named dense, down, key, out, query, up, value"),
        (
            LoRA(rank=33),
            r"rank=33 exceeds a width of encoder/layers/0/self_attention/query, which maps 32 to 32",
        ),
        (IA3(targets=("*/down",)), r"both match encoder/layers/0/feed_forward/down"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(adapter, message):
    with pytest.raises(ValueError, match=message):
        parameters.abstract(replace(TINY["distilbert"], adapter=adapter))


@pytest.mark.parametrize("name", WITHOUT_PROMPT)
def test_models_with_a_memory_take_prefixes_not_prompts(name):
    with pytest.raises(ValueError, match=r"PromptTuning can't be used with .* take PrefixTuning"):
        parameters.abstract(replace(TINY[name], adapter=PromptTuning()))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LoRA(rank=0), "rank is 0"),
        (lambda: LoRA(targets=()), "targets is empty"),
        (lambda: LoRA(dropout_rate=1.0), "dropout_rate is 1.0"),
        (lambda: IA3(targets=(), input_targets=()), "are empty"),
        (lambda: BottleneckAdapter(inner_dim=0), "inner_dim is 0"),
        (lambda: BottleneckAdapter(after=()), "after is"),
        (lambda: PrefixTuning(length=0), "length is 0"),
        (lambda: PromptTuning(length=0), "length is 0"),
    ],
)
def test_nonsense_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


EMBEDDINGS = LoRA(rank=2, alpha=4.0, targets=("embedding/tokens", "heads/lm_head/projection"))


def test_updates_of_embeddings_and_output_layer_start_at_nothing_train_and_merge():
    base = replace(TINY["llama"], tie_word_embeddings=False)
    config, batch = replace(base, adapter=EMBEDDINGS), batch_of(base)
    graphdef, params = parameters.abstract(config)[0], weights(config)
    assert {path.rpartition("/lora/")[0] for path in adapter_paths(config)} == {*EMBEDDINGS.targets}
    earlier = replace(
        EMBEDDINGS, targets=("embedding/tokens", "heads/words/projection")
    )  # as a run has recorded it
    assert adapter_paths(replace(base, adapter=earlier)) == adapter_paths(config)
    plain = parameters.flatten(params)
    without = parameters.unflatten({path: plain[path] for path in plain if path not in adapter_paths(config)})
    np.testing.assert_allclose(
        outputs(config, params, batch)["logits"], outputs(base, without, batch)["logits"], atol=1e-6
    )

    def loss(params):
        logits = parameters.merge(graphdef, params)(jax.tree.map(jnp.asarray, batch)).logits
        return jnp.sum(jnp.sin(logits * (logits > -1e9)))

    params = disturbed(config, params)
    gradients = parameters.flatten(jax.jit(jax.grad(loss))(params))
    assert all(np.abs(gradients[path]).max() > 0 for path in adapter_paths(config))
    merged_config, merged = merge_adapter(config, params)
    np.testing.assert_allclose(
        outputs(merged_config, merged, batch)["logits"], outputs(config, params, batch)["logits"], atol=1e-5
    )


def test_an_update_of_embeddings_is_not_merged_into_a_table_that_also_scores():
    config = replace(
        TINY["llama"], tie_word_embeddings=True, adapter=LoRA(rank=2, targets=("embedding/tokens",))
    )
    with pytest.raises(ValueError, match="output layer scores with the same table"):
        merge_adapter(config, weights(config))


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        (
            LoRA(rank=2, targets=("embedding/tokens",), dora=True),
            "dora=True is for linear layers, not for embedding",
        ),
        (LoRA(rank=2, targets=("embedding/token",)), "matches no linear layer"),
        (LoRA(rank=1000, targets=("embedding/tokens",)), "rank=1000 exceeds a width of embedding/tokens"),
    ],
)
def test_updates_of_embeddings_that_cannot_be_are_refused(adapter, message):
    with pytest.raises(ValueError, match=message):
        parameters.abstract(replace(TINY["llama"], adapter=adapter))


def test_every_linear_layer_leaves_embeddings_out():
    paths = adapter_paths(replace(TINY["gpt2"], adapter=LoRA(rank=2, targets=("*",))))
    assert not any(path.startswith("embedding/") for path in paths)
