"""Shared base of sparse decoders: configuration, and weights of experts in Hugging Face's files."""

import functools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from t5x_like.config_class import config_class
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.mixture_of_experts import MixtureOfExpertsConfig
from t5x_like.model.layers.router import RouterConfig, SoftmaxRouter
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.llama_like import LlamaLikeConfig
from t5x_like.model.zoo.llama_like_files import feed_forward_rows
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, WeightSource, module_rows

# Fields about training alone, and about what is returned.
IGNORED = ("output_router_logits", "router_jitter_noise")

# transformers' names of an expert's projections.
_PROJECTIONS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
# Files of transformers 5 may join the experts of a layer: gates and widening projections, and those that narrow.
_JOINED = re.compile(r"(?P<layer>.*\.mlp)\.experts\.(?P<part>gate_up_proj|down_proj)")


@config_class
class SparseDecoderConfig(LlamaLikeConfig):
    """Llama's block with experts in place of feed-forward layers: ``LlamaLikeConfig`` and these fields.

    No token is dropped, as in transformers.

    Attributes:
      num_experts: Experts in a sparse layer.
      num_experts_per_token: Experts that each token uses.
      router_aux_loss_coef: Weight of the load-balancing loss as transformers counts it: averaged over layers, and
        ``num_experts_per_token`` where all experts are equally busy.
      router_z_weight: Weight of the loss that keeps routers' logits small, summed over layers (see
        ``MixtureOfExpertsConfig``).
    """

    num_experts: int
    num_experts_per_token: int
    router_aux_loss_coef: float = 0.001
    router_z_weight: float = 0.0

    def is_sparse(self, layer: int) -> bool:  # noqa: ARG002 - members have dense layers, too
        """Return whether ``layer``, counted from 0, has experts."""
        return True

    @property
    def router(self) -> RouterConfig:
        """Scores of experts."""
        return SoftmaxRouter()

    @property
    def expert_mlp_dim(self) -> int:
        """Inner width of an expert."""
        return self.mlp_dim

    @property
    def shared_mlp_dim(self) -> int | None:
        """Inner width of what all tokens use besides; ``None`` for nothing."""
        return None

    @property
    def experts(self) -> MixtureOfExpertsConfig:
        """Experts of a sparse layer."""
        num_sparse = sum(map(self.is_sparse, range(self.num_layers)))
        return MixtureOfExpertsConfig(
            mlp_dim=self.expert_mlp_dim,
            activation=self.activation,
            gated=True,
            num_experts=self.num_experts,
            num_experts_per_token=self.num_experts_per_token,
            router=self.router,
            capacity_factor=None,
            shared_mlp_dim=self.shared_mlp_dim,
            balance_weight=self.router_aux_loss_coef * self.num_experts_per_token / max(num_sparse, 1),
            router_z_weight=self.router_z_weight,
        )

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``, with experts where it is sparse."""
        block = super().block(layer)
        return replace(block, feed_forward=self.experts) if self.is_sparse(layer) else block


def take_num_experts(fields: ConfigFields, name: str, other_name: str, default: int) -> int:
    """Return the number of experts, which transformers writes under either of two names.

    Args:
      fields: Fields of a ``config.json``.
      name: Name in published files.
      other_name: The other name.
      default: Number where the file has neither.

    Raises:
      ValueError: Both are there, and differ.
    """
    number = fields.take(name, fields.config.get(other_name) or default)
    fields.must_be(other_name, number)
    return number


def read_sparse(
    fields: ConfigFields, names: tuple[str, str], *, num_experts: int, num_experts_per_token: int
) -> dict[str, Any]:
    """Return the numbers of experts.

    Args:
      fields: Fields of a ``config.json``.
      names: Both names of the number of experts.
      num_experts: Experts where the file has none.
      num_experts_per_token: Experts of a token where the file has none.
    """
    return {
        "num_experts": take_num_experts(fields, *names, num_experts),
        "num_experts_per_token": fields.take("num_experts_per_tok", num_experts_per_token),
    }


def sparse_rows(
    config: SparseDecoderConfig,
    layer: int,
    *,
    prefix: str = "model.layers.{layer}.mlp.",
    names: Mapping[str, str] = _PROJECTIONS,
) -> list[Weight]:
    """Return the rows of a layer's experts, or of its feed-forward layer where it is dense.

    Args:
      config: Configuration of the model.
      layer: Number of the layer.
      prefix: Begins published names of a sparse layer.
      names: Published names of an expert's projections.
    """
    if not config.is_sparse(layer):
        return feed_forward_rows(config)
    experts = [
        Weight(
            f"feed_forward/experts/{own}/kernel",
            f"{prefix}experts.{{expert}}.{hf_name}.weight",
            TRANSPOSED,
            num_experts=config.num_experts,
        )
        for own, hf_name in names.items()
    ]
    return [*module_rows({"feed_forward/router": f"{prefix}gate"}, bias=False), *experts]


def separate_experts(
    source: WeightSource, *, layer: str = "mlp", names: Mapping[str, str] = _PROJECTIONS
) -> WeightSource:
    """Return files whose experts are joined in one array as files with an array for each.

    Args:
      source: Files in either form.
      layer: Name of the layer of experts where each has its own arrays.
      names: Names of an expert's projections there.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    parts: dict[str, tuple[str, int, slice]] = {}
    for name, shape in source.shapes.items():
        joined = _JOINED.fullmatch(name)
        if joined is None:
            is_gate = name.endswith(".mlp.gate.weight")
            own = name.replace(".mlp.", f".{layer}.") if is_gate else name
            shapes[own], parts[own] = shape, (name, -1, slice(None))
            continue
        is_pair = joined["part"] == "gate_up_proj" and len(shape) == 3
        width = shape[1] // 2 if is_pair else shape[1]
        for index, projection in enumerate(("gate", "up") if is_pair else ("down",)):
            for expert in range(shape[0]):
                own = f"{joined['layer'].removesuffix('mlp')}{layer}.experts.{expert}.{names[projection]}.weight"
                rows = slice(index * width, (index + 1) * width)
                shapes[own], parts[own] = (width, *shape[2:]), (name, expert, rows)
    read_whole = functools.lru_cache(maxsize=1)(
        source.read
    )  # the experts of a layer are read one after another

    def read(own: str) -> np.ndarray:
        name, expert, rows = parts[own]
        return source.read(name) if expert < 0 else read_whole(name)[expert][rows]

    return WeightSource(source.where, shapes, read)
