"""BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from t5x_like.config_class import config_class
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert_like import BertLikeConfig, bert_like, bert_like_weights
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.weights import Weight


@config_class
class BertConfig(BertLikeConfig):
    """A BERT of any size, for any task. Fields are those of ``BertLikeConfig``."""


def bert_classes(name: str) -> dict[str, ModelTask]:
    """Return the classes of transformers that BERT and ERNIE come in, which begin with ``name``."""
    return {
        f"{name}ForPreTraining": "pretraining",
        f"{name}ForMaskedLM": "masked_lm",
        f"{name}ForNextSentencePrediction": "next_sentence",
        f"{name}ForSequenceClassification": "sequence_classification",
        f"{name}ForMultipleChoice": "multiple_choice",
        f"{name}ForTokenClassification": "token_classification",
        f"{name}ForQuestionAnswering": "question_answering",
        f"{name}Model": "base",
    }


def bert_weights(encoder: EncoderConfig, prefix: str) -> tuple[Weight, ...]:
    """Return the weight table of BERT, or of a model that only changed the first part of its names.

    Args:
      encoder: Configuration.
      prefix: First part of the names, such as ``bert``.
    """
    predictions = "cls.predictions"
    return bert_like_weights(
        encoder,
        embeddings=f"{prefix}.embeddings",
        layers=f"{prefix}.encoder.layer",
        modules={
            "heads/lm_head/transform/dense": f"{predictions}.transform.dense",
            "heads/lm_head/transform/norm": f"{predictions}.transform.LayerNorm",
            "heads/pooler/transform/dense": f"{prefix}.pooler.dense",
        },
        words_copies=(f"{predictions}.decoder.weight",),
        words_bias=f"{predictions}.bias",
        words_bias_copies=(f"{predictions}.decoder.bias",),
        scores={"next_sentence": "cls.seq_relationship", "question_answering": "qa_outputs"},
    )


BERT = bert_like(
    "bert",
    BertConfig,
    bert_classes("Bert"),
    FieldTable(
        fields={},
        # Google's own files describe the pooler and the direction; nothing reads these fields.
        ignored=(
            "directionality",
            "pooler_fc_size",
            "pooler_num_attention_heads",
            "pooler_num_fc_layers",
            "pooler_size_per_head",
            "pooler_type",
        ),
        written={"pad_token_id": 0},
    ),
    weights=lambda config: bert_weights(config.encoder, "bert"),
)
