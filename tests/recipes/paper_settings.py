"""Settings that papers publish of their pretraining.

``PAPER_SETTINGS`` has, for each recipe, fields of its experiment, as ``describe`` names them, with the value that the
paper gives and the place where it gives it. ``tasks.0.`` is left out of names, and so is ``optimizer.`` before
``learning_rate.``.
"""

from typing import Any, NamedTuple


class Published(NamedTuple):
    """A value and where it is published."""

    value: Any
    source: str


Settings = dict[str, Published]


def published(source: str, **values: Any) -> Settings:
    """Return values of one source; ``__`` in a name is a dot."""
    return {name.replace("__", "."): Published(value, source) for name, value in values.items()}


_BERT = (
    published(
        "Devlin et al. 2019, appendix A.2",
        train__batch_size=256,
        optimizer__beta1=0.9,
        optimizer__beta2=0.999,
        optimizer__weight_decay_rate=0.01,
        model__dropout_rate=0.1,
        model__activation="gelu",
    )
    | published(
        "Devlin et al. 2019, section 3.1",
        objective__masking__noise_density=0.15,
        objective__masking__mask_rate=0.8,
        objective__masking__random_rate=0.1,
        objective__random_next_rate=0.5,
    )
    | published(
        "google-research/bert, optimization.py and create_pretraining_data.py",
        optimizer__epsilon=1e-6,
        optimizer__bias_correction=False,
        optimizer__max_gradient_norm=1.0,
        objective__num_copies=10,
        objective__short_rate=0.1,
    )
)
_BERT_BASE = published(
    "Devlin et al. 2019, section 3",
    model__num_layers=12,
    model__model_dim=768,
    model__num_heads=12,
)
_BERT_LARGE = published(
    "Devlin et al. 2019, section 3",
    model__num_layers=24,
    model__model_dim=1024,
    model__num_heads=16,
)
# The rate falls from 1e-4 at step 10,000 to 0 at step 1,000,000, so it is 1e-5 at step 900,000.
_BERT_128 = published(
    "Devlin et al. 2019, appendix A.2",
    train__inputs_length=128,
    total_steps=900_000,
    learning_rate__peak=1e-4,
    learning_rate__warmup_steps=10_000,
    learning_rate__end=1e-5,
)
_BERT_512 = published(
    "Devlin et al. 2019, appendix A.2",
    train__inputs_length=512,
    total_steps=100_000,
    learning_rate__peak=1e-5,
    learning_rate__warmup_steps=0,
    learning_rate__end=0.0,
)

_T5_1_1 = published(
    "Raffel et al. 2020, sections 3.1.4 and 3.1.2",
    train__inputs_length=512,
    train__targets_length=114,
    objective__noise_density=0.15,
    objective__mean_noise_span_length=3.0,
    optimizer__is="Adafactor",
    learning_rate__warmup_steps=10_000,
    learning_rate__base=1.0,
) | published(
    "google-research/text-to-text-transfer-transformer, released_checkpoints.md, T5.1.1",
    model__dropout_rate=0.0,
)

_TRANSFORMER = published(
    "Vaswani et al. 2017, section 5.3",
    optimizer__beta1=0.9,
    optimizer__beta2=0.98,
    optimizer__epsilon=1e-9,
    learning_rate__is="Noam",
    learning_rate__warmup_steps=4000,
    learning_rate__factor=1.0,
) | published(
    "Vaswani et al. 2017, sections 5.4 and 6.1",
    loss__label_smoothing=0.1,
    evaluations__0__generation__num_beams=4,
    evaluations__0__generation__length_penalty_alpha=0.6,
)
_TRANSFORMER_BASE = published(
    "Vaswani et al. 2017, table 3",
    model__num_encoder_layers=6,
    model__num_decoder_layers=6,
    model__model_dim=512,
    learning_rate__model_dim=512,
    model__encoder_mlp_dim=2048,
    model__num_encoder_heads=8,
    model__dropout_rate=0.1,
    total_steps=100_000,
) | published("Vaswani et al. 2017, section 6.1", intervals__keep_checkpoints=5)
_TRANSFORMER_BIG = published(
    "Vaswani et al. 2017, table 3",
    model__num_encoder_layers=6,
    model__num_decoder_layers=6,
    model__model_dim=1024,
    learning_rate__model_dim=1024,
    model__encoder_mlp_dim=4096,
    model__num_encoder_heads=16,
    model__dropout_rate=0.3,
    total_steps=300_000,
) | published("Vaswani et al. 2017, section 6.1", intervals__keep_checkpoints=20)

PAPER_SETTINGS: dict[str, Settings] = {
    "bert/pretrain_base.gin": _BERT | _BERT_BASE | _BERT_128,
    "bert/pretrain_base_512.gin": _BERT | _BERT_BASE | _BERT_512,
    "bert/pretrain_large.gin": _BERT | _BERT_LARGE | _BERT_128,
    "bert/pretrain_large_512.gin": _BERT | _BERT_LARGE | _BERT_512,
    "transformer/wmt14_en_de_base.gin": _TRANSFORMER | _TRANSFORMER_BASE,
    "transformer/wmt14_en_de_big.gin": _TRANSFORMER | _TRANSFORMER_BIG,
    "t5_1_1/pretrain_base.gin": _T5_1_1,
    "t5_1_1/pretrain_xxl_pod.gin": _T5_1_1
    | published("Raffel et al. 2020, section 3.7", train__batch_size=2048),
}
