"""Recurrent sequence-to-sequence models (Sutskever et al. 2014; Bahdanau et al. 2015; Luong et al. 2015)."""

from typing import ClassVar, Literal

from t5x_like.ancestors.families.rnn_encoder_decoder import RNNEncoderDecoderConfig, decoder_input_dim
from t5x_like.ancestors.layers.rnn_attention import InputFeeding, RNNAttentionConfig, RNNScore
from t5x_like.ancestors.layers.rnn_cell import GRUConfig, LSTMConfig, RNNCellConfig
from t5x_like.ancestors.layers.rnn_stack import RNNDirection, RNNStackConfig
from t5x_like.ancestors.zoo.rnn_config import RNNConfig
from t5x_like.config_class import config_class
from t5x_like.model.heads import LMHeadConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.linear import FanIn, Initializer, Normal
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.model_tasks import ModelTask, encoder_decoder_heads

_CELLS: dict[str, RNNCellConfig] = {"lstm": LSTMConfig(), "gru": GRUConfig()}


@config_class
class RNNSeq2SeqConfig(RNNConfig):
    """A recurrent encoder-decoder of any size: ``RNNConfig`` and these fields. Each row is one example.

    Input and output share a vocabulary, as everywhere in this package; the papers have one for each language.

    Attributes:
      model_dim: Width of word embeddings, and of the output where there is attention.
      hidden_dim: Units of each layer, in each direction.
      num_layers: Layers of the encoder, and of the decoder.
      cell: Gates of all layers.
      encoder_direction: ``"backward"`` reads inputs reversed (Sutskever et al. 2014, §3.3), ``"both"`` in both
        directions (Bahdanau et al. 2015, §3.2).
      attention: See ``RNNAttentionConfig.score``; ``None`` passes on the encoder's last states alone.
      input_feeding: See ``RNNAttentionConfig``.
      dropout_rate: Dropout of embedded tokens, between layers, and of the decoder's output.
      tie_word_embeddings: The output layer uses the word embeddings.
      init_stddev: Standard deviation of fresh weights; ``None`` for the root of one by the inputs.
    """

    hidden_dim: int
    num_layers: int
    cell: Literal["lstm", "gru"] = "lstm"
    encoder_direction: RNNDirection = "forward"
    attention: RNNScore | None = None
    input_feeding: InputFeeding = "none"
    tie_word_embeddings: bool = False
    task: ModelTask = "sequence_to_sequence_lm"
    init_stddev: float | None = None

    can_pack: ClassVar[bool] = False  # the decoder begins with the state after the whole row

    def __post_init__(self) -> None:
        if self.attention is None and self.input_feeding != "none":
            raise ValueError(
                f"input_feeding={self.input_feeding!r} feeds what attention computes; set attention, or "
                "input_feeding='none'"
            )
        if self.attention is None and self.tie_word_embeddings and self.hidden_dim != self.model_dim:
            raise ValueError(
                f"tie_word_embeddings scores outputs with embeddings of model_dim={self.model_dim}, and without "
                f"attention outputs have hidden_dim={self.hidden_dim}; give both the same, or set "
                "tie_word_embeddings=False"
            )
        super().__post_init__()

    @property
    def parts(self) -> RNNEncoderDecoderConfig:
        """Configuration of the family's model."""
        encoder = self._stack(self.model_dim, self.encoder_direction)
        attention = self.attention and RNNAttentionConfig(
            score=self.attention, output_dim=self.model_dim, input_feeding=self.input_feeding
        )
        inputs = decoder_input_dim(attention, embed_dim=self.model_dim, encoded_dim=encoder.output_dims[-1])
        output_dim = self.model_dim if attention else self.hidden_dim
        return RNNEncoderDecoderConfig(
            embeddings=self.embeddings,
            encoder=encoder,
            decoder=self._stack(inputs, "forward"),
            attention=attention,
            heads=encoder_decoder_heads(
                self.task,
                num_labels=self.num_labels,
                model_dim=output_dim,
                lm_head=LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings, bias=True),
                model="RNNSeq2Seq",
            ),
            dropout_rate=self.dropout_rate,
            compute_dtype=self.compute_dtype,
        )

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Word embeddings of both stacks."""
        return self.embeddings_of(stddev=self.init_stddev or self.model_dim**-0.5)

    def _stack(self, input_dim: int, direction: RNNDirection) -> RNNStackConfig:
        init: Initializer = FanIn() if self.init_stddev is None else Normal(self.init_stddev)
        return RNNStackConfig(
            input_dim=input_dim,
            hidden_dims=(self.hidden_dim,) * self.num_layers,
            cell=_CELLS[self.cell],
            direction=direction,
            dropout_rate=self.dropout_rate,
            init=init,
        )


RNN_SEQ2SEQ = unpublished(
    "rnn_seq2seq",
    RNNSeq2SeqConfig,
    "transformers has no recurrent sequence-to-sequence model; it can't be read or written in its form. Keep the run "
    "directory, which has all weights",
)
