"""ERNIE of Tsinghua (Zhang et al. 2019, https://arxiv.org/abs/1905.07129): BERT that reads entities.

It is not Baidu's ERNIE (``zoo/ernie.py``), which has no vectors of entities.
"""

import dataclasses
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Literal

from t5x_like.config_class import config_class
from t5x_like.model.families.entity_encoder import ENTITY_HEAD, EntityEncoderConfig
from t5x_like.model.heads import HeadsConfig, ScoreHeadConfig
from t5x_like.model.layers.entity_stack import EntityStackConfig
from t5x_like.model.zoo.architecture import unpublished
from t5x_like.model.zoo.bert import BertConfig


@config_class
class EntityBertConfig(BertConfig):
    """An ERNIE of Tsinghua of any size: ``BertLikeConfig`` and these fields.

    Attributes:
      num_entities: Number of entities that have a vector.
      num_entity_layers: Blocks that read entities (K-encoder), the last of ``num_layers``; the paper has 6 of 12.
      entity_dim: Width of the entities' vectors.
      num_entity_heads: Heads of the attention among entities.
      fusion_outputs: ``"residual"`` adds a fusion to its input and normalizes the sum, so that BERT's weights fit.
        ``"activation"`` is the nonlinearity alone (Zhang et al. 2019, equation 4).
    """

    num_entities: int
    num_entity_layers: int = 6
    entity_dim: int = 100
    num_entity_heads: int = 4
    fusion_outputs: Literal["residual", "activation"] = "residual"

    def __post_init__(self) -> None:
        if not 0 < self.num_entity_layers < self.num_layers:
            raise ValueError(
                f"num_entity_layers is {self.num_entity_layers} of num_layers={self.num_layers}; layers that read "
                "tokens alone come before them, so give at least 1 and fewer than all"
            )
        if self.num_entities < 1:
            raise ValueError(f"num_entities is {self.num_entities}; give the number of entities' vectors")
        super().__post_init__()

    @property
    def bert(self) -> BertConfig:
        """BERT with the same tokens' weights."""
        names = (field.name for field in dataclasses.fields(BertConfig))
        return BertConfig(**{name: getattr(self, name) for name in names})

    @property
    def parts(self) -> Any:
        """Configuration of the family's model."""
        bert = self.encoder
        num_token_layers = self.num_layers - self.num_entity_layers
        return EntityEncoderConfig(
            embeddings=bert.embeddings,
            stack=replace(bert.stack, blocks=(self.block,) * num_token_layers),
            entity_stack=EntityStackConfig(
                num_layers=self.num_entity_layers,
                block=self.block,
                entity_dim=self.entity_dim,
                num_entity_heads=self.num_entity_heads,
                outputs=self.fusion_outputs,
                remat=self.remat,
                scan_layers=self.scan_layers,
            ),
            num_entities=self.num_entities,
            heads=bert.heads,
            compute_dtype=self.compute_dtype,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``; pretraining also predicts entities."""
        heads = super().heads
        if self.task not in ("pretraining", "masked_lm"):
            return heads
        entity = ScoreHeadConfig(name=ENTITY_HEAD, input="tokens", num_outputs=self.entity_dim)
        return replace(heads, scores=(*heads.scores, entity))

    def trained_by_default(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return patterns of all weights but the entities' vectors, which stay as they are (§4.1)."""
        return tuple(
            f"{folder}/*" for folder in sorted({path.split("/")[0] for path in paths} - {"entities"})
        )


ENTITY_BERT = unpublished(
    "entity_bert",
    EntityBertConfig,
    "transformers has no model that reads entities; other formats can't hold it",
)
