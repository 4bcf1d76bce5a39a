"""Models that transformers lacks, written a second time: one row at a time, head by head, without any of our layers.

Slow and plain on purpose, from the papers' equations, in numpy's float64. Weights come as a flat dictionary; our own by
their paths in the tree of parameters, those of GLM by the names of its authors' files.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Weights = Mapping[str, Any]


def attend(
    query: Any, key: Any, value: Any, allowed: Any, *, num_heads: int, scale: float, bias: Any = None
) -> Any:
    """Attention of one row: ``allowed`` [queries, keys], ``bias`` [heads, queries, keys]."""
    outputs = []
    for head, (q, k, v) in enumerate(
        zip(*(np.split(part, num_heads, axis=-1) for part in (query, key, value)), strict=True)
    ):
        scores = scale * q @ k.T
        if bias is not None:
            scores = scores + bias[head]
        scores = np.where(allowed, scores, -np.inf)
        outputs.append(softmax(scores) @ v)
    return np.concatenate(outputs, axis=-1)


def softmax(scores: Any) -> Any:
    """Along the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layer_norm(x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    """Ba et al. 2016."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * weight + bias


def rms_norm(x: Any, weight: Any, epsilon: float) -> Any:
    """Zhang and Sennrich 2019."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weight


def gelu_tanh(x: Any) -> Any:
    """The approximation of Hendrycks and Gimpel 2016."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def causal(length: int) -> np.ndarray:
    """Who sees whom where everyone sees what came before."""
    return np.tril(np.ones((length, length), bool))


# --- GPT-3 (Brown et al. 2020, §2.1) ----------------------------------------------------------------------------------


def gpt3(weights: Weights, tokens: np.ndarray, *, num_layers: int, num_heads: int, band: int) -> Any:
    """Scores of one row: GPT-2's blocks, of which every second one sees ``band`` tokens, itself the last of them."""
    length = len(tokens)
    table = weights["embedding/tokens/table"]
    x = table[tokens] + weights["embedding/positions/table"][:length]
    banded = causal(length) & ~np.tril(np.ones((length, length), bool), -band)
    for layer in range(num_layers):
        part = _layer_of(weights, "decoder", layer, num_layers)

        def norm(x: Any, name: str, part: Weights = part) -> Any:
            return layer_norm(
                x, part[f"{name}_residual/before/scale"], part[f"{name}_residual/before/bias"], 1e-5
            )

        def project(x: Any, name: str, part: Weights = part) -> Any:
            return x @ part[f"{name}/kernel"] + part[f"{name}/bias"]

        y = norm(x, "self_attention")
        query, key, value = (project(y, f"self_attention/{name}") for name in ("query", "key", "value"))
        scale = (query.shape[-1] // num_heads) ** -0.5
        allowed = banded if layer % 2 else causal(length)
        mixed = attend(query, key, value, allowed, num_heads=num_heads, scale=scale)
        x = x + project(mixed, "self_attention/out")
        hidden = gelu_tanh(project(norm(x, "feed_forward"), "feed_forward/up"))
        x = x + project(hidden, "feed_forward/down")
    x = layer_norm(x, weights["decoder/final_norm/scale"], weights["decoder/final_norm/bias"], 1e-5)
    return x @ table.T


# --- T5 and what it compares (Raffel et al. 2020, §3.2) ---------------------------------------------------------------


def bucket(distance: int, *, bidirectional: bool, num_buckets: int = 32, furthest: int = 128) -> int:
    """The bucket of a key that lies ``distance`` behind the query: exact when near, logarithmic when far."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    near = num_buckets // 2
    if distance < near:
        return first + distance
    far = near + int(math.log(distance / near) / math.log(furthest / near) * (num_buckets - near) + 1e-9)
    return first + min(far, num_buckets - 1)


def bias_of(table: Any, length: int, *, bidirectional: bool) -> Any:
    """[heads, queries, keys] from a table [heads, buckets]."""
    buckets = [
        [bucket(key - query, bidirectional=bidirectional) for key in range(length)] for query in range(length)
    ]
    return table[:, np.array(buckets)]


def t5_stack(
    weights: Weights,
    stack: str,
    x: Any,
    allowed: np.ndarray,
    bias: Any,
    *,
    num_layers: int,
    num_heads: int,
    encoded: Any = None,
    experts: Mapping[str, Any] | None = None,
) -> Any:
    """T5's blocks and the norm behind them. Cross-attention is left out where there is nothing encoded."""
    for layer in range(num_layers):
        part = _layer_of(weights, stack, layer, num_layers)

        def attention(y: Any, keys: Any, name: str, allowed: Any, bias: Any, part: Weights = part) -> Any:
            query = y @ part[f"{name}/query/kernel"]
            key, value = keys @ part[f"{name}/key/kernel"], keys @ part[f"{name}/value/kernel"]
            mixed = attend(query, key, value, allowed, num_heads=num_heads, scale=1.0, bias=bias)
            return mixed @ part[f"{name}/out/kernel"]

        y = rms_norm(x, part["self_attention_residual/before/scale"], 1e-6)
        x = x + attention(y, y, "self_attention", allowed, bias)
        if encoded is not None:
            y = rms_norm(x, part["cross_attention_residual/before/scale"], 1e-6)
            everywhere = np.ones((len(y), len(encoded)), bool)
            x = x + attention(y, encoded, "cross_attention", everywhere, None)
        y = rms_norm(x, part["feed_forward_residual/before/scale"], 1e-6)
        if "feed_forward/router/kernel" in part:
            assert experts is not None
            x = x + switch(part, y, **experts)
        else:
            names = [name for name in ("up", "gate", "down") if f"feed_forward/{name}/kernel" in part]
            x = x + feed_forward(y, {name: part[f"feed_forward/{name}/kernel"] for name in names})
    return rms_norm(x, weights[f"{stack}/final_norm/scale"], 1e-6)


def feed_forward(x: Any, kernels: Weights) -> Any:
    """Relu, or a gated GELU (Shazeer 2020) where there is a gate."""
    if "gate" in kernels:
        return (gelu_tanh(x @ kernels["gate"]) * (x @ kernels["up"])) @ kernels["down"]
    return np.maximum(x @ kernels["up"], 0) @ kernels["down"]


def switch(part: Weights, x: Any, *, num_experts_per_token: int, capacity: int) -> Any:
    """Experts (Fedus et al. 2021, §2.1-2.2): token after token, first come, first served."""
    probabilities = softmax(x @ part["feed_forward/router/kernel"])
    load = [0] * probabilities.shape[-1]
    outputs = []
    for place in range(len(x)):
        chosen = np.argsort(-probabilities[place], kind="stable")[:num_experts_per_token]  # the best first
        gates = probabilities[place][chosen]
        if num_experts_per_token > 1:
            gates = gates / gates.sum()
        output = np.zeros_like(x[place])
        for expert, gate in zip(chosen, gates, strict=True):
            load[expert] += 1
            if load[expert] <= capacity:
                kernels = {
                    name: part[f"feed_forward/experts/{name}/kernel"][expert]
                    for name in ("up", "gate", "down")
                }
                output = output + gate * feed_forward(x[place], kernels)
        outputs.append(output)
    return np.stack(outputs)


def words_of(weights: Weights, x: Any) -> Any:
    """Scores of words: by a table of their own, or by the embedding's, before which vectors are scaled down."""
    own = weights.get("heads/lm_head/projection/kernel")
    return x @ own if own is not None else x * x.shape[-1] ** -0.5 @ weights["embedding/tokens/table"].T


def encoder_decoder(
    weights: Weights,
    inputs: np.ndarray,
    outputs: np.ndarray,
    *,
    encoder: str,
    num_layers: int,
    num_heads: int,
    experts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Scores of one row; ``encoder="decoder"`` reads with the decoder's own blocks."""
    experts = experts or {}
    table = weights["embedding/tokens/table"]
    sizes = {"num_layers": num_layers, "num_heads": num_heads}
    everywhere = np.ones((len(inputs), len(inputs)), bool)
    bias = bias_of(weights[f"{encoder}/relative_bias/table"], len(inputs), bidirectional=True)
    encoded = t5_stack(
        weights, encoder, table[inputs], everywhere, bias, **sizes, experts=experts.get("encoder")
    )
    bias = bias_of(weights["decoder/relative_bias/table"], len(outputs), bidirectional=False)
    decoded = t5_stack(
        weights,
        "decoder",
        table[outputs],
        causal(len(outputs)),
        bias,
        **sizes,
        encoded=encoded,
        experts=experts.get("decoder"),
    )
    return words_of(weights, decoded)


def language_model(
    weights: Weights, tokens: np.ndarray, *, prefix: int | None, num_layers: int, num_heads: int
) -> Any:
    """Scores of one row. With a prefix, its tokens see each other, and distances count both ways."""
    length = len(tokens)
    allowed = causal(length)
    if prefix is not None:
        allowed = allowed | (np.arange(length)[None] < prefix)
    bias = bias_of(weights["decoder/relative_bias/table"], length, bidirectional=prefix is not None)
    x = weights["embedding/tokens/table"][tokens]
    x = t5_stack(weights, "decoder", x, allowed, bias, num_layers=num_layers, num_heads=num_heads)
    return words_of(weights, x)


# --- the first GLM (Du et al. 2022), by its authors' names ------------------------------------------------------------


def glm(weights: Weights, tokens: np.ndarray, positions: np.ndarray, sep: int, *, num_heads: int) -> Any:
    """Scores of one row: all see the first ``sep`` tokens, and what came before. ``positions`` [1 or 2, L]."""
    table = weights["word_embeddings.weight"]
    x = table[tokens] + weights["transformer.position_embeddings.weight"][positions[0]]
    if len(positions) == 2:
        x = x + weights["transformer.block_position_embeddings.weight"][positions[1]]
    allowed = causal(len(tokens)) | (np.arange(len(tokens))[None] < sep)
    num_layers = 1 + max(
        int(name.split(".")[2]) for name in weights if name.startswith("transformer.layers.")
    )

    def named(name: str) -> tuple[Any, Any]:
        return weights[f"transformer.{name}.weight"], weights[f"transformer.{name}.bias"]

    def project(x: Any, name: str) -> Any:
        weight, bias = named(name)
        return x @ weight.T + bias

    for layer in (f"layers.{index}" for index in range(num_layers)):
        y = layer_norm(x, *named(f"{layer}.input_layernorm"), 1e-5)
        query, key, value = np.split(project(y, f"{layer}.attention.query_key_value"), 3, axis=-1)
        scale = (query.shape[-1] // num_heads) ** -0.5
        mixed = attend(query, key, value, allowed, num_heads=num_heads, scale=scale)
        x = x + project(mixed, f"{layer}.attention.dense")
        y = layer_norm(x, *named(f"{layer}.post_attention_layernorm"), 1e-5)
        x = x + project(gelu_tanh(project(y, f"{layer}.mlp.dense_h_to_4h")), f"{layer}.mlp.dense_4h_to_h")
    return layer_norm(x, *named("final_layernorm"), 1e-5) @ table.T


def _layer_of(weights: Weights, stack: str, layer: int, num_layers: int) -> dict[str, Any]:
    """A layer's own weights, from one stacked array for all layers or one for each."""
    prefix = f"{stack}/layers/"
    slots = {int(path.removeprefix(prefix).split("/")[0]) for path in weights if path.startswith(prefix)}
    slot, place = (0, layer) if len(slots) == 1 else (layer, 0)
    assert len(slots) in (1, num_layers)
    start = f"{prefix}{slot}/"
    return {
        path.removeprefix(start): array[place] for path, array in weights.items() if path.startswith(start)
    }
