"""AWD-LSTM (Merity et al. 2018, https://arxiv.org/abs/1708.02182)."""

from dataclasses import replace
from typing import Literal

from t5x_like.ancestors.families.rnn_language_model import PieceReading, RNNLanguageModelConfig
from t5x_like.ancestors.layers.rnn_cell import LSTMConfig
from t5x_like.ancestors.layers.rnn_stack import RNNStackConfig
from t5x_like.ancestors.zoo.rnn_config import RNNConfig
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.dropout import check_rate
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.linear import FanIn
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.model_traits import CarriedMemory
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.decoder_like import decoder_heads
from t5x_like.model.zoo.model_tasks import SEQUENCE_TASKS, ModelTask, scoring_heads


@config_class
class ConcatPooling:
    """ULMFiT's classifier of the last output, the maximum and the mean of all (Howard and Ruder 2018, §3.3).

    https://arxiv.org/abs/1801.06146. Two blocks follow, each a norm, dropout and a linear layer, with a ReLU between
    them. The paper's batch norm is a layer norm here, which needs no statistics of other rows.

    Attributes:
      hidden_dim: Width between the linear layers; 50 in §4.1.
      pooled_dropout_rate: Dropout before the first linear layer.
      dropout_rate: Dropout before the second.
    """

    hidden_dim: int = 50
    pooled_dropout_rate: float = 0.0
    dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        if self.hidden_dim < 1:
            raise ValueError(f"hidden_dim is {self.hidden_dim}; give a positive number")
        for name in ("pooled_dropout_rate", "dropout_rate"):
            check_rate(name, getattr(self, name))

    @property
    def pooler(self) -> PoolerConfig:
        """Pooling and the first block."""
        norm = LayerNormConfig()
        hidden = TransformConfig(dim=self.hidden_dim, activation="relu", norm=norm)
        return PoolerConfig(
            pooling="concat", norm=norm, dropout_rate=self.pooled_dropout_rate, transform=hidden
        )


@config_class
class AWDLSTMConfig(RNNConfig):
    """An AWD-LSTM of any size: ``RNNConfig`` and these fields. All dropout but that of weights is variational.

    Averaged SGD (§3) is no part of the model: see ``Sgd`` and ``UniformAverage``.

    Attributes:
      hidden_dim: Units of each layer but the last, which has ``model_dim``.
      num_layers: Number of layers.
      dropout_rate: Dropout of the last layer's outputs.
      input_dropout_rate: Dropout of the first layer's inputs.
      layer_dropout_rate: Dropout between layers.
      embedding_dropout_rate: Dropout of whole words.
      weight_dropout_rate: Dropout of the hidden kernels' entries.
      tie_word_embeddings: The output layer uses the word embeddings.
      keep_lm_head: See ``DecoderLikeConfig``.
      direction: ``"backward"`` for a language model of texts from their end, trained with ``ContiguousLM.backward``. It
        reads rows for heads from their end.
      carries_state: A language model's rows continue those of the batch before. ``False`` for rows that don't.
      classifier: Head for sequences; ``None`` for scores of the last token, as of other decoders.
      pieces: Reading of rows for heads in pieces; ``None`` for the whole row at once.
      activation_regularization: Weight of the mean square of the dropped outputs: AR (§4.6), 2 in §5.
      temporal_activation_regularization: Weight of the mean square of the difference between an output and the next
        one: TAR (§4.6), 1 in §5.
      init_stddev: Standard deviation of fresh word embeddings, by default that of a uniform distribution between -0.1
        and 0.1 (§5), which the paper trains with SGD. Short runs with Adam need a larger one.
    """

    hidden_dim: int
    num_layers: int
    input_dropout_rate: float = 0.0
    layer_dropout_rate: float = 0.0
    embedding_dropout_rate: float = 0.0
    weight_dropout_rate: float = 0.0
    tie_word_embeddings: bool = True
    task: ModelTask = "causal_lm"
    keep_lm_head: bool = False
    direction: Literal["forward", "backward"] = "forward"
    carries_state: bool = True
    classifier: ConcatPooling | None = None
    pieces: PieceReading | None = None
    activation_regularization: float = 0.0
    temporal_activation_regularization: float = 0.0
    init_stddev: float = 0.1 / 3**0.5

    @property
    def carried_memory(self) -> CarriedMemory | None:
        """State after the batch before, if ``carries_state``."""
        if not self.carries_state:
            return None
        setting = "the model's state continues from the batch before (carries_state)"
        return CarriedMemory(setting, "carries_state=False", is_backward=self.direction == "backward")

    def __post_init__(self) -> None:
        if self.num_layers == 1:
            refuse_unused(self, "layer_dropout_rate", because="there is one layer (num_layers is 1)")
        super().__post_init__()

    @property
    def parts(self) -> RNNLanguageModelConfig:
        """Configuration of the family's model."""
        return RNNLanguageModelConfig(
            embeddings=self.embeddings,
            stack=self.stack,
            heads=self.heads,
            embedding_dropout_rate=self.embedding_dropout_rate,
            input_dropout_rate=self.input_dropout_rate,
            output_dropout_rate=self.dropout_rate,
            direction=self.direction,
            pieces=self.pieces,
            carries_state=self.carries_state,
            activation_regularization=self.activation_regularization,
            temporal_activation_regularization=self.temporal_activation_regularization,
            compute_dtype=self.compute_dtype,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        lm_head = LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings, bias=True)
        heads = decoder_heads(self.task, self.num_labels, lm_head, keep_lm_head=self.keep_lm_head)
        if self.classifier is None or self.task not in SEQUENCE_TASKS:
            return heads
        own = scoring_heads(
            self.task,
            num_labels=self.num_labels,
            pooler=self.classifier.pooler,
            dropout_rate=self.classifier.dropout_rate,
        )
        assert own is not None
        return replace(own, lm_head=heads.lm_head)

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Word embeddings."""
        return self.embeddings_of(stddev=self.init_stddev)

    @property
    def stack(self) -> RNNStackConfig:
        """Layers, with the variance of a uniform distribution up to one by the root of the inputs."""
        return RNNStackConfig(
            input_dim=self.model_dim,
            hidden_dims=(*[self.hidden_dim] * (self.num_layers - 1), self.model_dim),
            cell=LSTMConfig(),
            dropout_rate=self.layer_dropout_rate,
            weight_dropout_rate=self.weight_dropout_rate,
            variational_dropout=True,
            init=FanIn(scale=3**-0.5),
        )


AWD_LSTM = unpublished(
    "awd_lstm",
    AWDLSTMConfig,
    "transformers has no AWD-LSTM; it can't be read or written in its form. Keep the run directory, which has all "
    "weights",
)
