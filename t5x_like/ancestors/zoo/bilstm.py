"""Bidirectional LSTMs that tag words or classify texts, with cross-view training (Clark et al. 2018)."""

from typing import ClassVar

from t5x_like.ancestors.families.rnn_encoder import RNNEncoderConfig
from t5x_like.ancestors.layers.rnn_stack import RNNStackConfig
from t5x_like.ancestors.zoo.rnn_config import RNNWithFeaturesConfig
from t5x_like.config_class import config_class
from t5x_like.model.heads import HeadsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.model_tasks import ModelTask, scoring_heads


@config_class
class BiLSTMConfig(RNNWithFeaturesConfig):
    """A bidirectional LSTM of any size: ``RNNWithFeaturesConfig`` and these fields.

    Heads read the outputs of all layers.

    Clark et al. 2018 (§3.2) add characters and pretrained vectors to the inputs, which here are pieces of words.

    Attributes:
      model_dim: Width of word embeddings.
      hidden_dim: Units of each layer, in each direction.
      num_layers: Number of layers.
      head_dim: Width of the ReLU layer before the scores.
      dropout_rate: Dropout of embedded tokens, between layers, and of what heads read.
      cross_view_weight: Weight of the loss of cross-view training, which reads rows without labels; 0 for none.
    """

    hidden_dim: int
    num_layers: int = 2
    head_dim: int = 128
    cross_view_weight: float = 0.0
    task: ModelTask = "token_classification"

    can_pack: ClassVar[bool] = False

    @property
    def unlabeled_loss(self) -> str | None:
        """Setting of cross-view training."""
        return f"cross_view_weight={self.cross_view_weight:g}" if self.cross_view_weight else None

    @property
    def parts(self) -> RNNEncoderConfig:
        """Configuration of the family's model."""
        transform = TransformConfig(dim=self.head_dim, activation="relu")
        heads = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=PoolerConfig(pooling="mean"),
            of_pooled=transform,
            of_tokens=transform,
        )
        if heads is None and self.task != "base":
            raise ValueError(f"BiLSTM has no head for the task {self.task!r}")
        return RNNEncoderConfig(
            embeddings=self.embeddings,
            stack=RNNStackConfig(
                input_dim=self.model_dim + (0 if self.features is None else self.features.dim_at("inputs")),
                hidden_dims=(self.hidden_dim,) * self.num_layers,
                direction="both",
                dropout_rate=self.dropout_rate,
            ),
            heads=heads or HeadsConfig(),
            features=self.features,
            dropout_rate=self.dropout_rate,
            cross_view_weight=self.cross_view_weight,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Word embeddings."""
        return self.embeddings_of(stddev=0.5)


BILSTM = unpublished(
    "bilstm",
    BiLSTMConfig,
    "transformers has no LSTM; it can't be read or written in its form. Keep the run directory, which has all weights",
)
