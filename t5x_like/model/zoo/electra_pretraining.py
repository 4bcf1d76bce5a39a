"""ELECTRA in pretraining: a small generator and the discriminator that remains (Clark et al. 2020, arXiv:2003.10555).

Its published files are the discriminator's: ``zoo/electra.py`` reads them, and export leaves out the generator.
"""

from typing import ClassVar

from t5x_like.config_class import config_class
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.electra import ELECTRA, ElectraConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.replaced_token_pretraining import ReplacedTokenPretraining, in_pretraining


@config_class
class ElectraPretrainingConfig(ReplacedTokenPretraining):
    """Both models of any size, with the same tables: ``ReplacedTokenPretraining`` and these fields.

    Attributes:
      generator_divisor: The generator has as many layers, and a ``generator_divisor``-th of the width and heads. A
        quarter to a half of the discriminator's size does best (§3.2).
      embed_dim: Width of the shared tables.
      num_token_types: Types of tokens.
      init_stddev: Standard deviation of all fresh weights.
    """

    own_fields: ClassVar[tuple[str, ...]] = ("generator_divisor",)
    generator_divisor: int = 4
    embed_dim: int
    num_token_types: int = 2
    init_stddev: float = 0.02

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
        shared = self.shared_fields
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
