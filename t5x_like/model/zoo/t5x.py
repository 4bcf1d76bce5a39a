"""T5's weights by the names of T5X (Roberts et al. 2022, https://arxiv.org/abs/2203.17189)."""

from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.t5_blocks import up_projections
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, padded_rows, per_layer


def t5x_weights(config: T5Config) -> tuple[Weight, ...]:
    """Our weights by T5X's names, in its layout with one array a layer."""
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    columns = TRANSPOSED.then(words).then(TRANSPOSED)
    table = [Weight("embedding/tokens/table", "token_embedder/embedding", words)]
    if config.head == "untied":
        table.append(Weight("heads/words/projection/kernel", "decoder/logits_dense/kernel", columns))
    attention = {kernel: kernel for kernel in ("query", "key", "value", "out")}
    feed_forward = {"down": "wo"} | up_projections(config)
    stacks = (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers))
    for stack, num_layers in stacks:
        own = "attention" if stack == "encoder" else "self_attention"
        sublayers = [("self_attention", own, f"pre_{own}_layer_norm", attention)]
        if stack == "decoder":
            cross = "encoder_decoder_attention"
            sublayers.append(("cross_attention", cross, "pre_cross_attention_layer_norm", attention))
        sublayers.append(("feed_forward", "mlp", "pre_mlp_layer_norm", feed_forward))
        rows = []
        for sublayer, their_sublayer, norm, kernels in sublayers:
            theirs = f"{stack}/layers_{{layer}}"
            rows.append(Weight(f"around_{sublayer}/before/scale", f"{theirs}/{norm}/scale"))
            rows += [
                Weight(f"{sublayer}/{kernel}/kernel", f"{theirs}/{their_sublayer}/{name}/kernel")
                for kernel, name in kernels.items()
            ]
        table += per_layer(f"{stack}/layers/0", tuple(range(num_layers)), rows)
        table += [
            Weight(f"{stack}/relative_bias/table", f"{stack}/relpos_bias/rel_embedding"),
            Weight(f"{stack}/final_norm/scale", f"{stack}/{stack}_norm/scale"),
        ]
    return tuple(table)
