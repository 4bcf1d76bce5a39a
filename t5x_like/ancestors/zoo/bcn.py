"""Biattentive classification networks on word vectors and pretrained features (McCann et al. 2017)."""

from typing import ClassVar

from t5x_like.ancestors.families.rnn_encoder import RNNEncoderConfig
from t5x_like.ancestors.layers.biattention import BiattentionConfig
from t5x_like.ancestors.layers.rnn_stack import RNNStackConfig
from t5x_like.ancestors.zoo.rnn_config import RNNWithFeaturesConfig
from t5x_like.config_class import config_class
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import Maxout, TransformConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.model_tasks import ModelTask, scoring_heads


@config_class
class BCNConfig(RNNWithFeaturesConfig):
    """A biattentive classification network of any size: ``RNNWithFeaturesConfig`` and these fields.

    Each row is one text.

    A ReLU layer, a bidirectional LSTM, biattention, pooling and maxout layers (§4). The paper's batch
    norm is a layer norm here, which needs no statistics of other rows.

    Attributes:
      model_dim: Width of word embeddings.
      input_dim: Width of the ReLU layer before the LSTM.
      hidden_dim: Units of the LSTM, in each direction.
      integrator_dim: Units of the integrator after biattention, in each direction.
      maxout_dims: Widths of the two maxout layers before the scores.
      num_pieces: Linear functions of each output of a maxout layer.
      dropout_rate: Dropout of inputs, of the LSTM's outputs, and between maxout layers.
    """

    input_dim: int
    hidden_dim: int
    integrator_dim: int
    maxout_dims: tuple[int, int]
    num_pieces: int = 4
    task: ModelTask = "sequence_classification"

    can_pack: ClassVar[bool] = False

    @property
    def parts(self) -> RNNEncoderConfig:
        """Configuration of the family's model."""
        if min(self.input_dim, self.integrator_dim, *self.maxout_dims) < 1:
            raise ValueError(
                f"input_dim is {self.input_dim}, integrator_dim is {self.integrator_dim} and maxout_dims are "
                f"{self.maxout_dims}; give positive numbers"
            )
        first, second = (
            TransformConfig(dim=dim, activation=Maxout(num_pieces=self.num_pieces), norm=LayerNormConfig())
            for dim in self.maxout_dims
        )
        pooler = PoolerConfig(
            pooling="self_attentive", norm=LayerNormConfig(), transform=first, dropout_rate=self.dropout_rate
        )
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=pooler,
            of_pooled=second,
            of_tokens=second,
            dropout_rate=self.dropout_rate,
        )
        if heads is None and self.task != "base":
            raise ValueError(f"BCN has no head for the task {self.task!r}")
        biattention = BiattentionConfig(hidden_dim=self.integrator_dim)
        return RNNEncoderConfig(
            embeddings=self.embeddings,
            stack=RNNStackConfig(input_dim=self.input_dim, hidden_dims=(self.hidden_dim,), direction="both"),
            heads=heads or HeadsConfig(),
            features=self.features,
            input_transform=TransformConfig(dim=self.input_dim, activation="relu"),
            biattention=biattention,
            dropout_rate=self.dropout_rate,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Word embeddings."""
        return self.embeddings_of(stddev=0.5)


BCN = unpublished(
    "bcn",
    BCNConfig,
    "transformers has no biattentive classification network; it can't be read or written in its form. Keep the run "
    "directory, which has all weights",
)
