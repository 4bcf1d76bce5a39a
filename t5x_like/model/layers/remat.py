"""Rematerialization: which values of the forward pass are kept for the backward pass, and where.

The others are computed again in the backward pass. Values are known by the linear layers that make them; see
``OUTPUT_NAMES``.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax

from t5x_like.model.layers.cudnn_attention import FORWARD_PRIMITIVE

# Policies, from the most memory to the least. Names are MaxText's.
Remat = Literal[
    "none",
    "minimal",
    "save_dot_except_mlp",
    "save_qkv_proj",
    "save_out_proj",
    "minimal_offloaded",
    "full",
]

# Names of the outputs of linear layers, by the axes of their kernels.
OUTPUT_NAMES = {
    ("embed", "joined_heads"): "qkv_proj",
    ("embed", "joined_kv_heads"): "qkv_proj",
    ("joined_heads", "embed"): "out_proj",
    ("embed", "mlp"): "mlp_in",
    ("mlp", "embed"): "mlp_out",
}

_ALL_OUTPUTS = sorted(set(OUTPUT_NAMES.values()))
_policies = jax.checkpoint_policies


def _is_cudnn_attention(primitive: Any, *_: object, **__: object) -> bool:
    """Return True for attention by cuDNN: its outputs are small, and take long to compute again."""
    return primitive.name == FORWARD_PRIMITIVE


_POLICIES: dict[Remat, Callable[..., Any]] = {
    # Outputs of linear layers with their biases, which XLA's kernels of products add if nothing in between is kept.
    "minimal": _policies.save_from_both_policies(
        _policies.save_only_these_names(*_ALL_OUTPUTS), _is_cudnn_attention
    ),
    "save_dot_except_mlp": _policies.save_only_these_names("qkv_proj", "out_proj"),
    "save_qkv_proj": _policies.save_only_these_names("qkv_proj"),
    "save_out_proj": _policies.save_only_these_names("out_proj"),
    # The same outputs as "minimal", in the host's memory until the backward pass needs them.
    "minimal_offloaded": _policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=_ALL_OUTPUTS,
        offload_src="device",
        offload_dst="pinned_host",
    ),
    "full": _policies.nothing_saveable,
}


def with_remat(run_layer: Callable[..., Any], remat: Remat) -> Callable[..., Any]:
    """Wrap a layer in ``jax.checkpoint`` with a policy.

    Args:
      run_layer: Function of a layer.
      remat: Policy: values that the backward pass keeps in memory.
    """
    return run_layer if remat == "none" else jax.checkpoint(run_layer, policy=_POLICIES[remat])
