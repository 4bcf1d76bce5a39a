"""DistilBERT (Sanh et al. 2019, https://arxiv.org/abs/1910.01108): half of BERT's layers, no types, no pooler."""

from t5x_like.config_class import config_class
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.bert_like import BertLikeConfig, bert_like_weights
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, Field
from t5x_like.model.zoo.model_tasks import SEQUENCE_TASKS, ModelTask, classifier_dropout_of, heads_for
from t5x_like.model.zoo.weights import Weight

_NORM_EPSILON = 1e-12  # config.json has no field for it


@config_class
class DistilBertConfig(BertLikeConfig):
    """A DistilBERT of any size, for any task: ``BertLikeConfig`` and one field.

    Tasks on whole sequences read the first token through a dense layer with a ReLU.

    Attributes:
      qa_dropout_rate: Dropout before the scores of question answering; ``None`` is ``dropout_rate``.
    """

    num_token_types: int = 0
    task: ModelTask = "masked_lm"
    qa_dropout_rate: float | None = None

    @property
    def pooler(self) -> PoolerConfig | None:
        """Layer on the first token, for tasks that read it."""
        transform = TransformConfig(dim=self.model_dim, activation="relu")
        return PoolerConfig(transform=transform) if self.task in SEQUENCE_TASKS else None

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``."""
        return heads_for(
            self.task,
            num_labels=self.num_labels,
            lm_head=LMHeadConfig(tie_word_embeddings=True, bias=True, transform=self.words_transform),
            pooler=self.pooler,
            dropout_rate=classifier_dropout_of(self) if self.pooler else self.dropout_rate,
            qa_dropout_rate=_qa_dropout_of(self),
        )


def _qa_dropout_of(config: DistilBertConfig) -> float:
    return config.dropout_rate if config.qa_dropout_rate is None else config.qa_dropout_rate


def _write(config: DistilBertConfig) -> dict[str, object]:
    fixed = {"norm_epsilon": _NORM_EPSILON, "num_token_types": 0}
    for name, value in vars(config).items():
        if value != fixed.get(name, value):
            raise ValueError(f"{name}={value} can't be written: DistilBERT's is {fixed[name]}")
    return {
        "attention_dropout": config.dropout_rate,
        "qa_dropout": _qa_dropout_of(config),
        "seq_classif_dropout": classifier_dropout_of(config),
    }


def _weights(config: DistilBertConfig) -> tuple[Weight, ...]:
    return bert_like_weights(
        config.encoder,
        embeddings="distilbert.embeddings",
        layers="distilbert.transformer.layer",
        names={
            "self_attention/query": "attention.q_lin",
            "self_attention/key": "attention.k_lin",
            "self_attention/value": "attention.v_lin",
            "self_attention/out": "attention.out_lin",
            "self_attention_residual/final": "sa_layer_norm",
            "feed_forward/up": "ffn.lin1",
            "feed_forward/down": "ffn.lin2",
            "feed_forward_residual/final": "output_layer_norm",
        },
        modules={
            "heads/lm_head/transform/dense": "vocab_transform",
            "heads/lm_head/transform/norm": "vocab_layer_norm",
            "heads/pooler/transform/dense": "pre_classifier",
        },
        words_copies=("vocab_projector.weight",),
        words_bias="vocab_projector.bias",
        scores={"question_answering": "qa_outputs"},
    )


DISTILBERT = published(
    "distilbert",
    DistilBertConfig,
    {
        "DistilBertForMaskedLM": "masked_lm",
        "DistilBertForSequenceClassification": "sequence_classification",
        "DistilBertForMultipleChoice": "multiple_choice",
        "DistilBertForTokenClassification": "token_classification",
        "DistilBertForQuestionAnswering": "question_answering",
        "DistilBertModel": "base",
    },
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size"),
            "model_dim": Field("dim"),
            "mlp_dim": Field("hidden_dim"),
            "num_heads": Field("n_heads"),
            "num_layers": Field("n_layers"),
            "max_position_embeddings": Field("max_position_embeddings", 512),
            "activation": Field("activation", "gelu", ACTIVATION_NAMES),
            "dropout_rate": Field("dropout", 0.1),
            "classifier_dropout_rate": Field("seq_classif_dropout", 0.2),
            "qa_dropout_rate": Field("qa_dropout", 0.1),
        },
        fixed={"tie_word_embeddings": True},
        required={"tie_weights_": True},
        # Sinusoidal positions are stored as learned ones are.
        ignored=("attention_dropout", "sinusoidal_pos_embds"),
        written={"pad_token_id": 0, "sinusoidal_pos_embds": False},
        write=_write,
    ),
    weights=_weights,
    prefix="distilbert.",
    unused_weights=("*.position_ids",),
)
