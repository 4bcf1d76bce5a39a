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

_ROBERTA = published(
    "Liu et al. 2019, table 9",
    train__batch_size=8192,
    total_steps=500_000,
    learning_rate__end=0.0,
    optimizer__beta1=0.9,
    optimizer__beta2=0.98,
    optimizer__epsilon=1e-6,
    optimizer__weight_decay_rate=0.01,
    optimizer__max_gradient_norm=None,
    model__dropout_rate=0.1,
) | published(
    "Liu et al. 2019, sections 2.3, 3.1, 4.1 and 4.2",
    train__inputs_length=512,
    objective__input_format="full_sentences",
    objective__num_copies=None,
    objective__masking__noise_density=0.15,
    objective__masking__mask_rate=0.8,
    objective__masking__random_rate=0.1,
)
_ROBERTA_BASE = published(
    "Liu et al. 2019, table 9",
    learning_rate__peak=6e-4,
    learning_rate__warmup_steps=24_000,
    model__num_layers=12,
    model__model_dim=768,
    model__num_heads=12,
    model__mlp_dim=3072,
)
_ROBERTA_LARGE = published(
    "Liu et al. 2019, table 9",
    learning_rate__peak=4e-4,
    learning_rate__warmup_steps=30_000,
    model__num_layers=24,
    model__model_dim=1024,
    model__num_heads=16,
    model__mlp_dim=4096,
)

_SPANBERT = (
    published(
        "Joshi et al. 2020, section 4.2",
        train__batch_size=256,
        train__inputs_length=512,
        total_steps=2_400_000,
        learning_rate__peak=1e-4,
        learning_rate__warmup_steps=10_000,
        optimizer__beta1=0.9,
        optimizer__beta2=0.999,
        optimizer__epsilon=1e-8,
        optimizer__weight_decay_rate=0.1,
        model__dropout_rate=0.1,
        model__activation="gelu",
        model__span_position_dim=200,
        objective__num_copies=None,
    )
    | published(
        "Joshi et al. 2020, section 3.1",
        objective__masking__is="SpanMasking",
        objective__masking__p=0.2,
        objective__masking__max_span=10,
        objective__masking__whole_words=True,
        objective__masking__noise_density=0.15,
        objective__masking__mask_rate=0.8,
        objective__masking__random_rate=0.1,
    )
    | published(
        "facebookresearch/SpanBERT, pretraining/README.md and fairseq/data/no_nsp_span_bert_dataset.py",
        optimizer__max_gradient_norm=1.0,
        learning_rate__end=0.0,
        objective__input_format="doc_sentences",
    )
)

_ALBERT = (
    published(
        "Lan et al. 2020, section 4.1",
        train__batch_size=4096,
        train__inputs_length=512,
        optimizer__is="Lamb",
        learning_rate__peak=0.00176,
        objective__masking__max_ngram=3,
        objective__short_rate=0.1,
    )
    | published("Lan et al. 2020, section 3.1", objective__is="SentenceOrder", objective__swap_rate=0.5)
    | published(
        "google-research/albert, optimization.py, run_pretraining.py and create_pretraining_data.py",
        learning_rate__warmup_steps=3125,
        learning_rate__end=0.0,
        optimizer__beta1=0.9,
        optimizer__beta2=0.999,
        optimizer__epsilon=1e-6,
        optimizer__weight_decay_rate=0.01,
        optimizer__max_gradient_norm=1.0,
        optimizer__bias_correction=False,
        objective__masking__noise_density=0.15,
        objective__masking__mask_rate=0.8,
        objective__masking__random_rate=0.1,
        objective__masking__whole_words=True,
    )
)
_ALBERT_BASE = published("Lan et al. 2020, section 4.1", total_steps=125_000) | published(
    "Lan et al. 2020, table 1",
    model__num_layers=12,
    model__model_dim=768,
    model__embed_dim=128,
)
_ALBERT_XXLARGE = (
    published("Lan et al. 2020, table 9", total_steps=1_000_000)
    | published("Lan et al. 2020, table 8", model__dropout_rate=0.0)
    | published(
        "Lan et al. 2020, table 1",
        model__num_layers=12,
        model__model_dim=4096,
        model__embed_dim=128,
    )
)

_ELECTRA = (
    published(
        "Clark et al. 2020, table 6",
        learning_rate__warmup_steps=10_000,
        learning_rate__end=0.0,
        optimizer__beta1=0.9,
        optimizer__beta2=0.999,
        optimizer__epsilon=1e-6,
        optimizer__weight_decay_rate=0.01,
        model__dropout_rate=0.1,
        model__num_layers=12,
        objective__masking__noise_density=0.15,
    )
    | published("Clark et al. 2020, section 3.1", model__discriminator_weight=50.0)
    | published(
        "google-research/electra, model/optimization.py and pretrain/pretrain_helpers.py",
        optimizer__max_gradient_norm=1.0,
        optimizer__bias_correction=False,
        objective__masking__mask_rate=0.85,
        objective__masking__random_rate=0.0,
        objective__num_copies=None,
    )
)
_ELECTRA_SMALL = published(
    "Clark et al. 2020, table 6",
    train__batch_size=128,
    total_steps=1_000_000,
    learning_rate__peak=5e-4,
    model__generator_divisor=4,
    model__model_dim=256,
    model__embed_dim=128,
    model__mlp_dim=1024,
    model__num_heads=4,
) | published("Clark et al. 2020, section 3.3", train__inputs_length=128)
_ELECTRA_BASE = published(
    "Clark et al. 2020, table 6",
    train__batch_size=256,
    total_steps=766_000,
    learning_rate__peak=2e-4,
    model__generator_divisor=3,
    model__model_dim=768,
    model__embed_dim=768,
    model__mlp_dim=3072,
    model__num_heads=12,
) | published("google-research/electra, configure_pretraining.py", train__inputs_length=512)
_ELECTRA_LARGE = published(
    "Clark et al. 2020, table 6",
    train__batch_size=2048,
    total_steps=400_000,
    learning_rate__peak=2e-4,
    objective__masking__noise_density=0.25,
    model__generator_divisor=4,
    model__num_layers=24,
    model__model_dim=1024,
    model__embed_dim=1024,
    model__mlp_dim=4096,
    model__num_heads=16,
) | published("google-research/electra, configure_pretraining.py", train__inputs_length=512)

_ERNIE = published(
    "Sun et al. 2019, sections 3.2 and 4.1",
    model__num_layers=12,
    model__model_dim=768,
    model__num_heads=12,
    objective__masking__noise_density=0.15,
    objective__masking__whole_words=False,
) | published(
    "PaddlePaddle/ERNIE, commit 778b995: pretrain.sh, optimization.py, batching.py and ernie_config.json",
    train__inputs_length=512,
    optimizer__weight_decay_rate=0.01,
    optimizer__max_gradient_norm=1.0,
    objective__masking__mask_rate=0.8,
    objective__masking__random_rate=0.1,
    model__dropout_rate=0.1,
    model__activation="relu",
)
# One line from 1e-4 at step 5,000 to 0 at step 1,000,000, at the steps that the recipes give to each stage.
_ERNIE_RATE = "PaddlePaddle/ERNIE, commit 778b995: pretrain.sh and pretrain_args.py"
_ERNIE_CHARACTERS = published(
    _ERNIE_RATE,
    objective__masking__is="TokenMasking",
    learning_rate__peak=1e-4,
    learning_rate__warmup_steps=5000,
    learning_rate__end=6e-5,
)
_ERNIE_PHRASES = published(
    _ERNIE_RATE,
    objective__masking__is="KnowledgeMasking",
    learning_rate__peak=6e-5,
    learning_rate__warmup_steps=0,
    learning_rate__end=3e-5,
)
_ERNIE_ENTITIES = published(
    _ERNIE_RATE,
    objective__masking__is="KnowledgeMasking",
    learning_rate__peak=3e-5,
    learning_rate__warmup_steps=0,
    learning_rate__end=0.0,
)

_DISTILBERT = published(
    "Sanh et al. 2019, sections 2 and 3",
    model__num_layers=6,
    model__model_dim=768,
    objective__is="MaskedLM",
    objective__num_copies=None,
) | published(
    "huggingface/transformers, examples/distillation/train.py and README.md",
    temperature=2.0,
    soft_targets_weight=5.0,
    own_loss_weight=2.0,
    hidden_states_weight=1.0,
    learning_rate__peak=5e-4,
    optimizer__epsilon=1e-6,
    optimizer__weight_decay_rate=0.0,
    optimizer__max_gradient_norm=5.0,
    objective__masking__noise_density=0.15,
    objective__masking__mask_rate=0.8,
    objective__masking__random_rate=0.1,
)

_MODERNBERT = published(
    "Warner et al. 2024, section 2.2 and table 3",
    optimizer__beta1=0.9,
    optimizer__beta2=0.98,
    optimizer__epsilon=1e-6,
    learning_rate__is="WarmupStableDecay",
    learning_rate__decay_shape="one_minus_sqrt",
    objective__masking__noise_density=0.3,
    model__local_attention=128,
    model__global_attn_every_n_layers=3,
    model__local_rope_theta=10_000.0,
) | published(
    "AnswerDotAI/ModernBERT, src/sequence_packer.py",
    objective__masking__mask_rate=0.8,
    objective__masking__random_rate=0.1,
)
_MODERNBERT_BASE = published("Warner et al. 2024, table 4", model__num_layers=22, model__model_dim=768)
_MODERNBERT_LARGE = published("Warner et al. 2024, table 4", model__num_layers=28, model__model_dim=1024)
_MODERNBERT_1024 = published(
    "Warner et al. 2024, section 2.2 and table 3",
    train__inputs_length=1024,
    model__global_rope_theta=10_000.0,
    learning_rate__decay_steps=0,
)
_MODERNBERT_8192 = published(
    "Warner et al. 2024, section 2.2 and table 3",
    train__inputs_length=8192,
    batch_size_ramp=None,
    model__global_rope_theta=160_000.0,
    learning_rate__warmup_steps=0,
)
# Steps without a growing batch are the published tokens by those of a batch of full rows.
_MODERNBERT_STAGES = {
    "modernbert/pretrain_base.gin": _MODERNBERT_BASE
    | _MODERNBERT_1024
    | published(
        "Warner et al. 2024, section 2.2 and table 3",
        train__batch_size=4608,
        batch_size_ramp__initial_batch_size=768,
        batch_size_ramp__over_rows=50_000_000_000 // 1024,
        learning_rate__peak=8e-4,
    ),
    "modernbert/pretrain_base_8192.gin": _MODERNBERT_BASE
    | _MODERNBERT_8192
    | published(
        "AnswerDotAI/ModernBERT, yamls/modernbert/modernbert-base-context-extension.yaml",
        train__batch_size=576,
        total_steps=-(-250_000_000_000 // (576 * 8192)),
        learning_rate__peak=3e-4,
        learning_rate__decay_steps=0,
    ),
    "modernbert/pretrain_base_decay.gin": _MODERNBERT_BASE
    | _MODERNBERT_8192
    | published(
        "AnswerDotAI/ModernBERT, yamls/modernbert/modernbert-base-learning-rate-decay.yaml",
        train__batch_size=576,
        total_steps=-(-50_000_000_000 // (576 * 8192)),
        learning_rate__peak=3e-4,
        learning_rate__decay_steps=-(-50_000_000_000 // (576 * 8192)),
        learning_rate__end=3e-7,
    ),
    "modernbert/pretrain_large.gin": _MODERNBERT_LARGE
    | _MODERNBERT_1024
    | published(
        "Warner et al. 2024, section 2.2 and table 3",
        train__batch_size=4928,
        batch_size_ramp__initial_batch_size=448,
        batch_size_ramp__over_rows=10_000_000_000 // 1024,
        learning_rate__peak=5e-4,
    ),
    "modernbert/pretrain_large_low_rate.gin": _MODERNBERT_LARGE
    | _MODERNBERT_1024
    | published(
        "Warner et al. 2024, section 2.2 and table 3",
        train__batch_size=4928,
        total_steps=-(-800_000_000_000 // (4928 * 1024)),
        learning_rate__peak=5e-5,
    ),
    "modernbert/pretrain_large_8192.gin": _MODERNBERT_LARGE
    | _MODERNBERT_8192
    | published(
        "AnswerDotAI/ModernBERT, yamls/modernbert/modernbert-large-context-extension.yaml",
        train__batch_size=616,
        total_steps=-(-250_000_000_000 // (616 * 8192)),
        learning_rate__peak=5e-5,
        learning_rate__decay_steps=0,
    ),
    "modernbert/pretrain_large_decay.gin": _MODERNBERT_LARGE
    | _MODERNBERT_8192
    | published(
        "AnswerDotAI/ModernBERT, yamls/modernbert/modernbert-large-learning-rate-decay.yaml",
        train__batch_size=624,
        total_steps=-(-50_000_000_000 // (624 * 8192)),
        learning_rate__peak=5e-5,
        learning_rate__decay_steps=-(-50_000_000_000 // (624 * 8192)),
        learning_rate__end=5e-8,
    ),
}

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

_ELMO = published(
    "Peters et al. 2018, section 3.4",
    model__model_dim=512,
    model__hidden_dim=4096,
    model__num_layers=2,
    model__num_highway_layers=2,
) | published(
    "allenai/bilm-tf, bin/train_elmo.py and bilm/training.py",
    objective__is="BidirectionalLM",
    model__character_dim=16,
    model__cell_clip=3.0,
    model__projection_clip=3.0,
    model__dropout_rate=0.1,
    model__softmax__num_samples=8192,
    optimizer__is="Adagrad",
    optimizer__initial_accumulator=1.0,
    optimizer__max_gradient_norm=10.0,
    learning_rate__value=0.2,
    loss__normalize_by=3 * 128.0,
    total_steps=round(10 * 768_648_884 / (3 * 128 * 20)),
)

PAPER_SETTINGS: dict[str, Settings] = {
    "elmo/pretrain_one_billion.gin": _ELMO,
    "bert/pretrain_base.gin": _BERT | _BERT_BASE | _BERT_128,
    "bert/pretrain_base_512.gin": _BERT | _BERT_BASE | _BERT_512,
    "bert/pretrain_large.gin": _BERT | _BERT_LARGE | _BERT_128,
    "bert/pretrain_large_512.gin": _BERT | _BERT_LARGE | _BERT_512,
    "roberta/pretrain_base.gin": _ROBERTA | _ROBERTA_BASE,
    "roberta/pretrain_large.gin": _ROBERTA | _ROBERTA_LARGE,
    "spanbert/pretrain_base.gin": _SPANBERT | _BERT_BASE,
    "spanbert/pretrain_large.gin": _SPANBERT | _BERT_LARGE,
    "albert/pretrain_base.gin": _ALBERT | _ALBERT_BASE,
    "albert/pretrain_xxlarge.gin": _ALBERT | _ALBERT_XXLARGE,
    "electra/pretrain_small.gin": _ELECTRA | _ELECTRA_SMALL,
    "electra/pretrain_base.gin": _ELECTRA | _ELECTRA_BASE,
    "electra/pretrain_large.gin": _ELECTRA | _ELECTRA_LARGE,
    "ernie/pretrain_base.gin": _ERNIE | _ERNIE_CHARACTERS,
    "ernie/pretrain_base_phrases.gin": _ERNIE | _ERNIE_PHRASES,
    "ernie/pretrain_base_entities.gin": _ERNIE | _ERNIE_ENTITIES,
    "distillation/distilbert.gin": _DISTILBERT,
    "transformer/wmt14.gin RUN=en_de_base": _TRANSFORMER | _TRANSFORMER_BASE,
    "transformer/wmt14.gin RUN=en_de_big": _TRANSFORMER | _TRANSFORMER_BIG,
    "transformer/wmt14.gin RUN=en_fr_base": _TRANSFORMER
    | _TRANSFORMER_BASE
    | published("Vaswani et al. 2017, section 5.1", target_template="{fr}"),
    "transformer/wmt14.gin RUN=en_fr_big": _TRANSFORMER
    | _TRANSFORMER_BIG
    | published("Vaswani et al. 2017, section 6.1", target_template="{fr}", model__dropout_rate=0.1),
    **{name: _MODERNBERT | settings for name, settings in _MODERNBERT_STAGES.items()},
    "t5_1_1/pretrain_base.gin": _T5_1_1,
    "t5_1_1/pretrain_xxl_pod.gin": _T5_1_1
    | published("Raffel et al. 2020, section 3.7", train__batch_size=2048),
}
