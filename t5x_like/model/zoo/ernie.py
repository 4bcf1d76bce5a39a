"""ERNIE 1.0 (Sun et al. 2019, https://arxiv.org/abs/1904.09223) and 2.0 (Sun et al. 2020, arXiv:1907.12412).

Both are BERTs with other pretraining: 1.0 masks entities and phrases, 2.0 trains several tasks and embeds their types.
"""

from dataclasses import replace

from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert import bert_classes, bert_weights
from t5x_like.model.zoo.bert_like import BertLikeConfig, bert_like
from t5x_like.model.zoo.config_fields import ConfigFields


@config_class
class ErnieConfig(BertLikeConfig):
    """An ERNIE of any size, for any task: ``BertLikeConfig`` and one field.

    Attributes:
      num_task_types: Types of pretraining tasks (ERNIE 2.0); 0 for none (ERNIE 1.0).
    """

    num_task_types: int = 0

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions, token types and task types, normalized."""
        return replace(super().embeddings, num_task_types=self.num_task_types)


def _read(fields: ConfigFields, _: object) -> dict[str, object]:
    num_task_types = fields.take("task_type_vocab_size", 3)
    return {"num_task_types": num_task_types if fields.take("use_task_id", False) else 0}


def _write(config: ErnieConfig) -> dict[str, object]:
    return {
        "task_type_vocab_size": config.num_task_types or 3,
        "use_task_id": config.num_task_types > 0,
    }


ERNIE = bert_like(
    "ernie",
    ErnieConfig,
    bert_classes("Ernie"),
    FieldTable(fields={}, written={"pad_token_id": 0}, read=_read, write=_write),
    weights=lambda config: bert_weights(config.encoder, "ernie"),
)
