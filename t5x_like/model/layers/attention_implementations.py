"""Ways to compute attention, and what each of them can't compute."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from t5x_like.model.layers.masks import AttentionMask, as_mask

# Computation of attention: all scores at once; block by block, in memory that grows linearly with the length; the same
# by Pallas kernels, for TPUs; or by cuDNN's fused kernels, on GPUs.
AttentionImplementation = Literal["plain", "blockwise", "pallas", "cudnn"]

# Those that take a mask as its conditions and a bias by distance, and make parts of them.
IN_BLOCKS = ("blockwise", "pallas")


def check_cudnn(*, head_dim: int, soft_cap: float | None, dtype: jnp.dtype, dropout_rate: float) -> None:
    """Refuse what cuDNN's attention can't compute.

    Args:
      head_dim: Width of a head.
      soft_cap: ``attention_logit_soft_cap``.
      dtype: Type of activations.
      dropout_rate: Dropout of attention weights; 0.0 where nothing is dropped.

    Raises:
      ValueError: With the trait, and the implementations that have it.
    """
    traits = {
        f"attention_logit_soft_cap={soft_cap}": soft_cap is not None,
        f"head_dim={head_dim} (cuDNN needs a multiple of 8, at most 128)": head_dim % 8 != 0
        or head_dim > 128,
        f"dropout_rate={dropout_rate} of attention weights": dropout_rate > 0,
        f"compute_dtype={str(dtype)!r} (cuDNN needs bfloat16)": dtype not in (jnp.bfloat16, jnp.float16),
        f"the backend {_platform()!r} (cuDNN needs an NVIDIA GPU)": _platform() != "gpu",
    }
    _refuse("cudnn", traits)


def check_pallas(mask: AttentionMask | Bool[Array, "..."] | None) -> None:
    """Refuse what our Pallas kernels can't compute.

    Args:
      mask: Mask of the attention.

    Raises:
      ValueError: With the trait, and the implementations that have it.
    """
    is_array = as_mask(mask).allowed is not None
    _refuse("pallas", {"a mask given as an array of queries and keys (Batch.attention_mask)": is_array})


def _platform() -> str:
    """Return the platform to compile for: that of the mesh's devices, which needn't be here."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return jax.default_backend() if device is None else device.platform


def _refuse(implementation: str, traits: dict[str, bool]) -> None:
    unsupported = [trait for trait, present in traits.items() if present]
    if unsupported:
        raise ValueError(
            f"attention_implementation={implementation!r} can't compute attention with {' and '.join(unsupported)}; "
            "'plain' and 'blockwise' can"
        )
