"""ELECTRA in pretraining: a small generator and the discriminator that remains (Clark et al. 2020, arXiv:2003.10555).

Its files are the discriminator's: ``zoo/electra.py`` reads them, and export leaves the generator behind.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax

from t5x_like.model.families.generator_discriminator import (
    GeneratorDiscriminator,
    GeneratorDiscriminatorConfig,
)
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation
from t5x_like.model.layers.stack import Remat
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo import electra
from t5x_like.model.zoo.model_tasks import ModelTask


@dataclass(frozen=True, kw_only=True)
class ElectraPretrainingConfig:
    """An ELECTRA of any size, to be pretrained; sizes are the discriminator's.

    The generator is as deep, and a ``generator_divisor``-th as wide, with as many heads fewer: a quarter to a half of
    the discriminator's size does best (§3.2). The discriminator's loss counts ``discriminator_weight`` times (§3.1).
    """

    vocab_size: int
    embed_dim: int
    model_dim: int
    mlp_dim: int
    num_heads: int
    num_layers: int
    generator_divisor: int = 4
    discriminator_weight: float = 50.0
    max_position_embeddings: int = 512
    num_token_types: int = 2
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    dropout_rate: float = 0.0
    init_stddev: float = 0.02
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    pad_vocab_to_multiple_of: int = 128

    def __post_init__(self) -> None:
        if self.discriminator_weight < 0:
            raise ValueError(
                f"discriminator_weight is {self.discriminator_weight}; give 0 or more, as the paper's 50"
            )
        for name in ("model_dim", "mlp_dim", "num_heads"):
            size = getattr(self, name)
            if self.generator_divisor < 1 or size % self.generator_divisor:
                raise ValueError(
                    f"a generator of a generator_divisor={self.generator_divisor}-th of {name}={size} can't be made; "
                    "choose a divisor of model_dim, mlp_dim and num_heads"
                )

    def build(self, key: jax.Array) -> GeneratorDiscriminator:
        """Both models with fresh weights."""
        config = GeneratorDiscriminatorConfig(
            generator=self.generator.encoder,
            discriminator=self.discriminator.encoder,
            discriminator_weight=self.discriminator_weight,
        )
        return GeneratorDiscriminator(config, key=key)

    @property
    def discriminator(self) -> electra.ElectraConfig:
        """The model that remains after pretraining."""
        return self._electra("replaced_tokens", divisor=1)

    @property
    def generator(self) -> electra.ElectraConfig:
        """The model that makes up replacements."""
        return self._electra("masked_lm", divisor=self.generator_divisor)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """The tables that both share."""
        return self.discriminator.embeddings

    @property
    def task(self) -> ModelTask:
        """The discriminator's task."""
        return "replaced_tokens"

    def _electra(self, task: ModelTask, *, divisor: int) -> electra.ElectraConfig:
        return electra.ElectraConfig(
            vocab_size=self.vocab_size,
            embed_dim=self.embed_dim,
            model_dim=self.model_dim // divisor,
            mlp_dim=self.mlp_dim // divisor,
            num_heads=self.num_heads // divisor,
            num_layers=self.num_layers,
            max_position_embeddings=self.max_position_embeddings,
            num_token_types=self.num_token_types,
            activation=self.activation,
            norm_epsilon=self.norm_epsilon,
            task=task,
            dropout_rate=self.dropout_rate,
            init_stddev=self.init_stddev,
            compute_dtype=self.compute_dtype,
            remat=self.remat,
            pad_vocab_to_multiple_of=self.pad_vocab_to_multiple_of,
        )


def discriminator_params(params: Parameters) -> Parameters:
    """The weights of ``config.discriminator`` among those of both models."""
    return {name: params[name] for name in ("embedding", "encoder", "heads")}


def generator_params(params: Parameters) -> Parameters:
    """The weights of ``config.generator``, the shared tables included, among those of both models."""
    tables = {name: table for name, table in params["embedding"].items() if name != "projection"}
    if "generator_projection" in params:
        tables["projection"] = params["generator_projection"]
    return {"embedding": tables, "encoder": params["generator"], "heads": params["generator_heads"]}


def to_hugging_face(config: ElectraPretrainingConfig) -> dict[str, Any]:
    """The fields of the discriminator's ``config.json``."""
    warnings.warn(
        "written as ElectraForPreTraining, without the generator: Hugging Face keeps each in files of its own; to go "
        "on with pretraining, keep the run's own checkpoints",
        stacklevel=2,
    )
    return electra.to_hugging_face(config.discriminator)


ELECTRA_PRETRAINING = replace(
    electra.ELECTRA,
    name="electra_pretraining",
    config_class=ElectraPretrainingConfig,
    model_types=(),
    to_hugging_face=to_hugging_face,
    hugging_face_weights=lambda config: electra.hugging_face_weights(config.discriminator),
)
