"""AWD-LSTM (Merity et al. 2018, https://arxiv.org/abs/1708.02182)."""

from t5x_like.config_class import config_class
from t5x_like.model.families.rnn_language_model import RNNLanguageModelConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.linear import FanIn
from t5x_like.model.layers.rnn_cell import LSTMConfig
from t5x_like.model.layers.rnn_stack import RNNStackConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.decoder_like import decoder_heads
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.rnn_config import RNNConfig


@config_class
class AWDLSTMConfig(RNNConfig):
    """An AWD-LSTM of any size: ``RNNConfig`` and these fields. All dropout but that of weights is variational.

    Activations aren't regularized (§4.6), and averaged SGD (§3) is no part of the model.

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
    init_stddev: float = 0.1 / 3**0.5

    @property
    def parts(self) -> RNNLanguageModelConfig:
        """Configuration of the family's model."""
        words = WordsConfig(tie_word_embeddings=self.tie_word_embeddings, bias=True)
        return RNNLanguageModelConfig(
            embeddings=self.embeddings,
            stack=self.stack,
            heads=decoder_heads(self.task, self.num_labels, words, keep_lm_head=self.keep_lm_head),
            embedding_dropout_rate=self.embedding_dropout_rate,
            input_dropout_rate=self.input_dropout_rate,
            output_dropout_rate=self.dropout_rate,
            compute_dtype=self.compute_dtype,
        )

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
