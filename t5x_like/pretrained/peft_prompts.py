"""Prompts and prefixes in PEFT's form and ours."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from t5x_like.model.adapters import PrefixTuning, PromptTuning
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.rotary import rotate
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.pretrained.peft_contents import AdapterFields, AdapterTensors
from t5x_like.pretrained.peft_weights import Arrays, PublishedModel, with_empty_adapter


def read_prompt(fields: AdapterFields, tensors: AdapterTensors) -> tuple[CommonConfig, Arrays]:
    """Return our configuration with the adapter, and its weights by path.

    Args:
      fields: Adapter's configuration.
      tensors: Adapter's arrays and the model to adapt.

    Raises:
      ValueError: An option that we lack, or weights that don't fit the model.
    """
    length, copies = fields.take("num_virtual_tokens"), fields.take("num_transformer_submodules", 1)
    fields.ignore("token_dim", "num_attention_heads", "num_layers", "prompt_tuning_init")
    fields.ignore("prompt_tuning_init_text", "tokenizer_kwargs", "tokenizer_name_or_path")
    _refuse_classifying_prompt(tensors.model.config, tensors.where)
    embeddings = tensors.pop_whole("prompt_embeddings")

    def require(*width: int) -> None:
        fits = (copies * length, *width)
        tensors.refuse_unlike("prompt", {"prompt_embeddings": (embeddings.shape, fits)})

    require(*embeddings.shape[1:])  # before an array of that length is made
    config, params = with_empty_adapter(tensors.model.config, PromptTuning(length=length))
    vectors = params["embedding/prompt/vectors"]
    require(vectors.shape[1])
    # An encoder-decoder's has rows for the decoder too, which PEFT doesn't use.
    vectors[:] = embeddings[:length]
    return config, params


def write_prompt(
    prompt: PromptTuning, model: PublishedModel, flat: Mapping[str, np.ndarray]
) -> tuple[dict[str, object], Arrays]:
    """Return fields and tensors of an adapter.

    Args:
      prompt: The adapter.
      model: Model without the adapter.
      flat: Weights by path.

    Raises:
      ValueError: PEFT can't express it.
    """
    _refuse_classifying_prompt(model.config, "PromptTuning")
    vectors = flat["embedding/prompt/vectors"]
    return {
        "num_virtual_tokens": prompt.length,
        "num_transformer_submodules": 1,
        "token_dim": vectors.shape[1],
        "prompt_tuning_init": "RANDOM",
    }, {"prompt_embeddings": vectors}


def _refuse_classifying_prompt(config: CommonConfig, where: str) -> None:
    """Refuse encoders that read a class from the first token, which with PEFT is a virtual one."""
    parts = config.parts
    if isinstance(parts, EncoderConfig) and parts.heads.pooler is not None:
        raise ValueError(
            f"{where}: with a prompt, PEFT's {type(config).__name__} classifies by the first virtual token, ours by "
            "the first real one, so neither can use the other's; LoRA, (IA)3 and prefixes can be exchanged"
        )


def read_prefix(fields: AdapterFields, tensors: AdapterTensors) -> tuple[CommonConfig, Arrays]:
    """Return our configuration with the adapter, and its weights by path.

    Args:
      fields: Adapter's configuration.
      tensors: Adapter's arrays and the model to adapt.

    Raises:
      ValueError: An option that we lack, or weights that don't fit the model.
    """
    model, length = tensors.model, fields.take("num_virtual_tokens")
    # Files have the outputs of a projection, not its weights.
    fields.ignore("token_dim", "num_attention_heads", "num_layers", "num_transformer_submodules")
    fields.ignore("encoder_hidden_size", "prefix_projection", "init_weights")
    stack = _PrefixedStack(model.config, tensors.where)
    embeddings = tensors.pop_whole("prompt_embeddings")
    fits = (length, 2 * len(stack.attention) * stack.width)
    tensors.refuse_unlike("prefix", {"prompt_embeddings": (embeddings.shape, fits)})
    prefix = PrefixTuning(length=length, hidden_dim=None, shift_positions=stack.has_learned_positions)
    config, params = with_empty_adapter(model.config, prefix)
    vectors = embeddings.reshape(length, -1, 2, stack.width)
    for path, layers in stack.slots.items():
        for index, layer in enumerate(layers):
            params[f"{path}/prefix/keys"][index] = stack.rotated(vectors[:, layer, 0], layer, -length)
            params[f"{path}/prefix/values"][index] = vectors[:, layer, 1]
    return config, params


def write_prefix(
    prefix: PrefixTuning, model: PublishedModel, flat: Mapping[str, np.ndarray]
) -> tuple[dict[str, object], Arrays]:
    """Return fields and tensors of an adapter.

    Args:
      prefix: The adapter.
      model: Model without the adapter.
      flat: Weights by path.

    Raises:
      ValueError: PEFT can't express it.
    """
    stack = _PrefixedStack(model.config, "PrefixTuning")
    if stack.has_learned_positions and not prefix.shift_positions:
        raise ValueError(
            "with PEFT the learned positions of tokens begin after the prefix, and this one was trained without that; "
            "train it with PrefixTuning(shift_positions=True)"
        )
    vectors = np.empty((prefix.length, len(stack.attention), 2, stack.width), np.float32)
    for path, layers in stack.slots.items():
        start = f"{path}/prefix/"
        own = {name.removeprefix(start): array for name, array in flat.items() if name.startswith(start)}
        for index, layer in enumerate(layers):
            keys, values = _keys_values({name: array[index] for name, array in own.items()})
            vectors[:, layer, 0] = stack.rotated(keys, layer, prefix.length)
            vectors[:, layer, 1] = values
    return {
        "num_virtual_tokens": prefix.length,
        "num_transformer_submodules": 1,
        "num_layers": len(stack.attention),
        "num_attention_heads": stack.width // stack.attention[0].head_dim,
        "token_dim": stack.width,
        "encoder_hidden_size": stack.width,
        "prefix_projection": False,
    }, {"prompt_embeddings": vectors.reshape(prefix.length, -1)}


def _keys_values(weights: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return one layer's keys and values, which a reparametrized prefix computes."""
    if "keys" in weights:
        return weights["keys"], weights["values"]
    hidden = np.tanh(weights["vectors"] @ weights["hidden/kernel"] + weights["hidden/bias"])
    keys, values = np.split(hidden @ weights["out/kernel"] + weights["out/bias"], 2, axis=-1)
    return keys, values


class _PrefixedStack:
    """The layers that PEFT gives a prefix.

    There a prefix is a cache of earlier tokens: keys as they are after rotation, and tokens' positions begin after it.
    Rotary attention knows distances alone, so the same prefix before tokens from position 0 on has its keys rotated
    back.

    Attributes:
      attention: Self-attention of each layer.
      slots: Numbers of the layers that are stacked at each path.
      width: Width of keys, all heads of a layer.
      has_learned_positions: Tokens have learned positions.

    Raises:
      ValueError: PEFT computes something else than we do with a prefix.
    """

    def __init__(self, config: CommonConfig, where: str):
        parts, name = config.parts, type(config).__name__
        advice = "LoRA and (IA)3 can be exchanged"
        if not isinstance(parts, EncoderConfig | DecoderConfig):
            raise ValueError(
                f"{where}: PEFT gives {name} prefixes in the decoder's self-attention alone, some of them the same for "
                f"several layers; ours are in every attention layer. {advice}, and for encoder-decoders prompts"
            )
        stack = parts.stack
        self.attention = [
            block.attention for block in stack.blocks if isinstance(block.attention, AttentionConfig)
        ]
        if len(self.attention) < len(stack.blocks):
            raise ValueError(
                f"{where}: {name} has latent attention, to which PEFT gives no prefixes; {advice}"
            )
        relative = stack.relative_positions or any(
            each.positions is not each.rotary for each in self.attention
        )
        differs = {
            "has relative positions, which PEFT gives prefixes too and we don't": relative,
            "has sliding windows, which a prefix leaves with PEFT and never with us": any(
                each.window for each in self.attention
            ),
            "shares weights between layers, whose prefixes PEFT keeps apart": stack.sharing,
        }
        for what, is_so in differs.items():
            if is_so:
                raise ValueError(f"{where}: {name} {what}, so prefixes can't be exchanged; {advice}")
        folder = "encoder" if isinstance(parts, EncoderConfig) else "decoder"
        slots = enumerate(stack.layer_pattern.slots)
        self.slots = {f"{folder}/layers/{slot}/self_attention": layers for slot, layers in slots}
        self.width = self.attention[0].kv_heads * self.attention[0].head_dim
        self.has_learned_positions = parts.embeddings.positions is not None

    def rotated(self, keys: np.ndarray, layer: int, by: int) -> np.ndarray:
        """Return keys [P, heads * head_dim] of a layer, turned by a number of positions."""
        attention: AttentionConfig = self.attention[layer]
        rotary = attention.rotary
        if rotary is None:
            return keys
        heads = jnp.asarray(keys).reshape(1, len(keys), -1, attention.head_dim)
        turned = rotate(heads, jnp.full((1, len(keys)), by), rotary)
        # YaRN enlarges what it rotates; a prefix isn't enlarged here or there.
        return np.asarray(turned.at[..., : rotary.rotated_dim].divide(rotary.growth)).reshape(keys.shape)
