"""ELECTRA in pretraining: a small generator and the discriminator that remains (Clark et al. 2020, arXiv:2003.10555).

Its published files are the discriminator's: ``zoo/electra.py`` reads them, and export leaves out the generator.
"""

from dataclasses import fields

from t5x_like.config_class import changeable, config_class
from t5x_like.model.layers.attention_implementations import AttentionChoice
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.layer_scan import LayerLoop
from t5x_like.model.layers.remat import Remat
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.common_config import ComputeDtype
from t5x_like.model.zoo.electra import ELECTRA, ElectraConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.replaced_token_pretraining import ReplacedTokenPretraining, in_pretraining

_OWN_FIELDS = ("generator_divisor", "discriminator_weight")


@config_class
class ElectraPretrainingConfig(ReplacedTokenPretraining):
    """A generator and a discriminator of any size.

    Fields other than the first two are those of ``ElectraConfig``; sizes are the discriminator's.

    Attributes:
      generator_divisor: The generator has as many layers, and a ``generator_divisor``-th of the width and heads. A
        quarter to a half of the discriminator's size does best (§3.2).
      discriminator_weight: Weight of the discriminator's loss (§3.1).
      vocab_size: Number of token ids.
      embed_dim: Width of the shared tables.
      model_dim: Width of the discriminator's residual stream.
      mlp_dim: Inner width of its feed-forward layers.
      num_heads: Its attention heads.
      num_layers: Layers of each model.
      max_position_embeddings: Longest input in tokens.
      num_token_types: Types of tokens.
      activation: Nonlinearity of the feed-forward layers.
      norm_epsilon: Added to the variance in all norms.
      dropout_rate: Dropout of both models.
      init_stddev: Standard deviation of all fresh weights.
      compute_dtype: Type of activations.
      remat: Activations that the backward pass computes again.
      scan_layers: Layers run in a loop (see ``CommonConfig``).
      attention_implementation: Computation of attention (see ``CommonConfig``).
      pad_vocab_to_multiple_of: The word table is padded to a multiple of this many rows.
    """

    generator_divisor: int = 4
    vocab_size: int
    embed_dim: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    max_position_embeddings: int = 512
    num_token_types: int = 2
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    dropout_rate: float = 0.0
    init_stddev: float = 0.02
    compute_dtype: ComputeDtype = "float32"
    remat: Remat = changeable(default="none")
    scan_layers: LayerLoop = changeable(default="auto")
    attention_implementation: AttentionChoice = changeable(default="auto")
    pad_vocab_to_multiple_of: int = 128

    def __post_init__(self) -> None:
        for name in ("model_dim", "mlp_dim", "num_heads"):
            size = getattr(self, name)
            if self.generator_divisor < 1 or size % self.generator_divisor:
                raise ValueError(
                    f"a generator of a generator_divisor={self.generator_divisor}-th of {name}={size} can't be made; "
                    "choose a divisor of model_dim, mlp_dim and num_heads"
                )
        super().__post_init__()

    @property
    def discriminator(self) -> ElectraConfig:
        """Model that remains after pretraining."""
        return self._electra("replaced_tokens", divisor=1)

    @property
    def generator(self) -> ElectraConfig:
        """Model that proposes replacements."""
        return self._electra("masked_lm", divisor=self.generator_divisor)

    def _electra(self, task: ModelTask, *, divisor: int) -> ElectraConfig:
        shared = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in _OWN_FIELDS
        }
        widths = {name: shared[name] // divisor for name in ("model_dim", "mlp_dim", "num_heads")}
        return ElectraConfig(**{**shared, **widths, "task": task})


def discriminator_params(params: Parameters) -> Parameters:
    """Return the weights of ``config.discriminator`` among those of both models."""
    return {name: params[name] for name in ("embedding", "encoder", "heads")}


def generator_params(params: Parameters) -> Parameters:
    """Return the weights of ``config.generator``, shared tables included, among those of both models."""
    tables = {name: table for name, table in params["embedding"].items() if name != "projection"}
    if "generator_projection" in params:
        tables["projection"] = params["generator_projection"]
    return {"embedding": tables, "encoder": params["generator"], "heads": params["generator_heads"]}


ELECTRA_PRETRAINING = in_pretraining(
    ELECTRA, ElectraPretrainingConfig, name="electra_pretraining", task="replaced_tokens"
)
