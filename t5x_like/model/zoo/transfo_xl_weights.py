"""Transformer-XL's weights by Hugging Face's names."""

import numpy as np

from t5x_like.model.families.recurrent import RecurrentConfig
from t5x_like.model.layers.adaptive_softmax import AdaptiveConfig
from t5x_like.model.layers.relative_stack import RelativeStackConfig
from t5x_like.model.zoo.decoder_like import decoder_score_rows
from t5x_like.model.zoo.relative_like import reshaped
from t5x_like.model.zoo.weights import (
    TRANSPOSED,
    Weight,
    WeightTransform,
    module_rows,
    padded_rows,
    per_layer,
)


def transfo_xl_weights(config: RecurrentConfig) -> tuple[Weight, ...]:
    """Return the weight table: words in clusters, blocks, and the adaptive softmax or another head."""
    stack = config.stack
    return (
        *_embedding_rows(config.words, stack.model_dim),
        *per_layer("stack/layers", tuple(range(stack.num_layers)), _layer_rows(stack)),
        # No weight, but files have it: the frequencies of the distances' sines.
        Weight((), "transformer.pos_emb.inv_freq", _frequencies(stack.model_dim)),
        *(
            _softmax_rows(config.words, stack.model_dim)
            if config.scores_words
            else decoder_score_rows(config.heads)
        ),
    )


def _layer_rows(stack: RelativeStackConfig) -> list[Weight]:
    hf_name, (slot,) = "transformer.layers.{layer}.", stack.norm_slots
    bias = reshaped((stack.attention.num_heads, stack.attention.head_dim), (-1,))
    kernels = ("attention/query/kernel", "attention/key/kernel", "attention/value/kernel")
    projections = {"attention/distance": "r_net", "attention/out": "o_net"}
    modules = {
        "feed_forward/up": "pos_ff.CoreNet.0",
        "feed_forward/down": "pos_ff.CoreNet.3",
        f"attention_residual/{slot}": "dec_attn.layer_norm",
        f"feed_forward_residual/{slot}": "pos_ff.layer_norm",
    }
    return [
        Weight(kernels, f"{hf_name}dec_attn.qkv_net.weight", _FUSED),
        *module_rows(projections, f"{hf_name}dec_attn.", bias=False),
        Weight("attention/content_bias", f"{hf_name}dec_attn.r_w_bias", bias),
        Weight("attention/distance_bias", f"{hf_name}dec_attn.r_r_bias", bias),
        *module_rows(modules, hf_name),
    ]


def _embedding_rows(words: AdaptiveConfig, model_dim: int) -> list[Weight]:
    table, hf_name = [], "transformer.word_emb"
    projected = words.is_projected(model_dim)
    for index, cluster in enumerate(words.tables):
        rows = padded_rows(cluster.stop - cluster.start, words.num_rows(cluster))
        path, name = f"embedding/tables/{index}/table", f"{hf_name}.emb_layers.{index}.weight"
        copies = (f"crit.out_layers.{index}.weight",) if words.tie_word_embeddings else ()
        table.append(Weight(path, name, rows, copies=copies))
        if projected:
            sharing = range(len(words.clusters)) if words.div_val == 1 else (index,)
            copies = tuple(f"crit.out_projs.{cluster}" for cluster in sharing if words.is_tied(cluster))
            path, name = f"embedding/projections/{index}/kernel", f"{hf_name}.emb_projs.{index}"
            table.append(Weight(path, name, TRANSPOSED, copies=copies))
    return table


def _softmax_rows(words: AdaptiveConfig, model_dim: int) -> list[Weight]:
    table = []
    for cluster_index, cluster in enumerate(words.tables):
        rows = padded_rows(cluster.stop - cluster.start, words.num_rows(cluster))
        hf_name = f"crit.out_layers.{cluster_index}"
        table.append(Weight(f"softmax/biases/{cluster_index}", f"{hf_name}.bias", rows))
        if not words.tie_word_embeddings:
            table.append(Weight(f"softmax/tables/{cluster_index}/table", f"{hf_name}.weight", rows))
    if words.is_projected(model_dim):
        table += [
            Weight(f"softmax/projections/{cluster_index}/kernel", f"crit.out_projs.{cluster_index}")
            for cluster_index in range(len(words.clusters))
            if not words.is_tied(cluster_index)
        ]
    if words.cutoffs:
        table += [
            Weight("softmax/clusters/kernel", "crit.cluster_weight", TRANSPOSED),
            Weight("softmax/clusters/bias", "crit.cluster_bias"),
        ]
    return table


# Query, key and value, one above the other.
_FUSED = WeightTransform(
    lambda array: tuple(part.T for part in np.split(array, 3)),
    lambda *parts: np.concatenate([part.T for part in parts]),
)


def _frequencies(model_dim: int) -> WeightTransform:
    exponents = np.arange(0, model_dim, 2, dtype=np.float32) / np.float32(model_dim)
    # Rounded where PyTorch rounds, for the same bits.
    frequencies = np.float32(1) / (10_000.0 ** exponents.astype(np.float64)).astype(np.float32)
    return WeightTransform(lambda _: (), lambda: frequencies)
