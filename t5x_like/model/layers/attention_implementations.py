"""Ways to compute attention, what each of them can't compute, and the one that is chosen where none is given."""

import os
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from t5x_like.model.automatic_choices import platform
from t5x_like.model.layers.masks import AttentionMask, as_mask

# Computation of attention: all scores at once; block by block, in memory that grows linearly with the length; the same
# by Pallas kernels, for TPUs; or by cuDNN's fused kernels, on GPUs.
AttentionImplementation = Literal["plain", "blockwise", "pallas", "cudnn"]
AttentionChoice = Literal["auto", AttentionImplementation]

# Those that take a mask as its conditions and a bias by distance, and make parts of them.
IN_BLOCKS = ("blockwise", "pallas")

_SCORE_BYTES = 8  # a score and its weight in float32
# Of the smallest chips: where a program is not for the devices of this process alone.
_LEAST_MEMORY = 16 * 2**30
_MIN_CAPABILITY = 8.0  # of NVIDIA GPUs on which cuDNN's attention runs


class AttentionShape(NamedTuple):
    """Properties of a layer's attention that not every implementation can compute.

    Attributes:
      head_dim: Width of a head.
      soft_cap: ``attention_logit_soft_cap``.
      dtype: Type of activations.
      dropout_rate: Dropout of attention weights; 0.0 where nothing is dropped.
      lengths: Numbers of queries and keys.
      has_prefix: Whether learned keys come before the others.
      mask: Mask of the attention.
    """

    head_dim: int
    soft_cap: float | None
    dtype: jnp.dtype
    dropout_rate: float
    lengths: tuple[int, int]
    has_prefix: bool = False
    mask: AttentionMask | Bool[Array, "..."] | None = None

    @property
    def beyond_cudnn(self) -> list[str]:
        """Properties that cuDNN can't compute."""
        return _present(
            {
                f"attention_logit_soft_cap={self.soft_cap}": self.soft_cap is not None,
                f"head_dim={self.head_dim} (cuDNN needs a multiple of 8, at most 128)": self.head_dim % 8 != 0
                or self.head_dim > 128,
                f"dropout_rate={self.dropout_rate} of attention weights": self.dropout_rate > 0,
                f"compute_dtype={str(self.dtype)!r} (cuDNN needs bfloat16)": self.dtype
                not in (jnp.bfloat16, jnp.float16),
                f"the backend {platform()!r} (cuDNN needs an NVIDIA GPU)": platform() != "gpu",
            }
        )

    @property
    def beyond_training_by_cudnn(self) -> list[str]:
        """Properties that cuDNN may compute, but not in a backward pass, or not with every length of a prefix."""
        lengths = " x ".join(map(str, self.lengths))
        return _present(
            {
                f"{lengths} scores (cuDNN needs even lengths)": any(length % 2 for length in self.lengths),
                "keys of a prefix": self.has_prefix,
            }
        )

    @property
    def beyond_pallas(self) -> list[str]:
        """Properties that our Pallas kernels can't compute."""
        is_array = as_mask(self.mask).allowed is not None
        return _present({"a mask given as an array of queries and keys (Batch.attention_mask)": is_array})


def check_cudnn(shape: AttentionShape) -> None:
    """Refuse what cuDNN's attention can't compute.

    Args:
      shape: The attention.

    Raises:
      ValueError: With the trait, and the implementations that have it.
    """
    _refuse("cudnn", shape.beyond_cudnn)


def check_pallas(shape: AttentionShape) -> None:
    """Refuse what our Pallas kernels can't compute.

    Args:
      shape: The attention.

    Raises:
      ValueError: With the trait, and the implementations that have it.
    """
    _refuse("pallas", shape.beyond_pallas)


def choose_attention(
    shapes: Sequence[AttentionShape], *, num_scores: int
) -> tuple[AttentionImplementation, str]:
    """Return the fastest implementation that computes all attention of a stack, and the reason.

    cuDNN's kernels on NVIDIA GPUs and our Pallas kernels on TPUs; block by block where a device could not hold the
    scores; plain attention otherwise.

    Args:
      shapes: Attention of all kinds of the stack's layers.
      num_scores: Scores that a device holds at once, computed plainly.
    """
    device = platform()
    kernels: tuple[AttentionImplementation, list[str]] | None = None
    if device == "gpu":
        beyond = [each for shape in shapes for each in (*shape.beyond_cudnn, *shape.beyond_training_by_cudnn)]
        kernels = "cudnn", beyond or _unfit_gpu()
    elif device == "tpu":
        kernels = "pallas", [each for shape in shapes for each in shape.beyond_pallas] or _unset_mesh()
    if kernels is not None and not kernels[1]:
        return kernels[0], f"kernels for {device.upper()}s"
    reason = f"on a {device.upper()}" if kernels is None else f"{kernels[0]} can't compute {kernels[1][0]}"
    needed, memory = num_scores * _SCORE_BYTES, _device_memory()
    if needed > memory / 2:
        return "blockwise", f"{reason}; scores would need {needed / 2**30:.1f} GiB of {memory / 2**30:.1f}"
    return "plain", reason


def _unset_mesh() -> list[str]:
    """Return why kernels can't be split over devices: only a mesh that is set says how."""
    is_unset = jax.sharding.get_abstract_mesh().empty and jax.device_count() > 1
    return ["arrays of several devices without a mesh (jax.set_mesh)"] if is_unset else []


def _unfit_gpu() -> list[str]:
    """Return why cuDNN's attention doesn't run on the GPUs of this machine; nothing for absent ones."""
    if jax.default_backend() != "gpu":
        return []
    device = jax.local_devices()[0]
    capability = getattr(device, "compute_capability", "")
    if not re.fullmatch(r"\d+(\.\d+)?", capability):
        return [f"on a {device.device_kind} (cuDNN needs an NVIDIA GPU)"]
    if float(capability) < _MIN_CAPABILITY:
        return [
            f"on a {device.device_kind} (cuDNN needs compute capability {_MIN_CAPABILITY}, not {capability})"
        ]
    return []


def _device_memory() -> int:
    """Return the bytes of memory of a device to compile for.

    Several processes get a number that is the same for all, since they must compile one program.
    """
    if platform() != jax.default_backend() or jax.process_count() > 1:
        return _LEAST_MEMORY
    if platform() == "cpu" and hasattr(os, "sysconf"):  # which Windows lacks
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // jax.local_device_count()
    return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", _LEAST_MEMORY)


def _present(traits: dict[str, bool]) -> list[str]:
    return [trait for trait, present in traits.items() if present]


def _refuse(implementation: str, unsupported: list[str]) -> None:
    if unsupported:
        raise ValueError(
            f"attention_implementation={implementation!r} can't compute attention with {' and '.join(unsupported)}; "
            "'plain' and 'blockwise' can"
        )
