"""mBART (Liu et al. 2020, https://arxiv.org/abs/2001.08210) and mBART-50: BART with norms before its layers."""

from typing import ClassVar

from t5x_like.config_class import config_class
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.bart import BartConfig, refuse_other_epsilons
from t5x_like.model.zoo.bart_like import BART_LIKE_FIELDS, BART_LIKE_IGNORED, bart_like_weights


@config_class
class MBartConfig(BartConfig):
    """An mBART of any size: BART's embeddings, norms before the layers and one after each stack."""

    norms_before: ClassVar[bool] = True
    wraps_labels: ClassVar[bool] = True  # targets end with the code of their language


MBART = published(
    "mbart",
    MBartConfig,
    {"MBartForConditionalGeneration": "sequence_to_sequence_lm", "MBartModel": "base"},
    FieldTable(
        fields=BART_LIKE_FIELDS,
        fixed={"is_encoder_decoder": True, "tie_word_embeddings": True},
        required={
            "normalize_before": True,
            "normalize_embedding": True,
            "add_final_layer_norm": True,
            "add_bias_logits": False,
            "static_position_embeddings": False,
            "extra_pos_embeddings": 2,
        },
        ignored=(*BART_LIKE_IGNORED, "is_decoder", "tokenizer_class"),
        # Files have no start of the decoder: it reads the code of the language to write.
        written={"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "forced_eos_token_id": 2},
        default_task="sequence_to_sequence_lm",
        write=refuse_other_epsilons,
    ),
    weights=bart_like_weights,
    prefix="model.",
)
