"""Settings that papers publish of the pretraining of encoder-decoders; see ``paper_settings``."""

from typing import Any

from tests.recipes.paper_settings import Settings, published

_SPANS = {
    "objective__is": "SpanCorruption",
    "objective__noise_density": 0.15,
    "objective__mean_noise_span_length": 3.0,
}
_T5_SCHEDULE = {
    "optimizer__is": "Adafactor",
    "learning_rate__is": "InverseSqrt",
    "learning_rate__base": 1.0,
    "learning_rate__warmup_steps": 10_000,
}


def _lengths(inputs: int, targets: int) -> dict[str, Any]:
    return {"train__inputs_length": inputs, "train__targets_length": targets}


_T5_1_0 = published(
    "Raffel et al. 2020, sections 3.1.1, 3.1.2 and 3.1.4",
    **_T5_SCHEDULE,
    train__inputs_length=512,
    train__batch_size=128,
    total_steps=2**19,
    model__num_encoder_layers=12,
    model__num_decoder_layers=12,
    model__model_dim=768,
    model__mlp_dim=3072,
    model__num_heads=12,
    model__feed_forward="relu",
    model__tie_word_embeddings=True,
    model__dropout_rate=0.1,
)
_T5_BASE = _T5_1_0 | published(
    "google-research/text-to-text-transfer-transformer, t5/models/gin/objectives/span_3_15_u_u.gin",
    **_SPANS,
    train__targets_length=114,
)
# Examples of each task with labels, of which 2**19 count at most: sections 3.5.2 and 3.5.3.
_T5_EXAMPLES = {
    "corpus": 2**19,
    "wmt_t2t_ende_v003": 2**19,
    "wmt15_enfr_v003": 2**19,
    "wmt16_enro_v003": 2**19,
    "glue_mnli_v002": 392_702,
    "glue_rte_v002": 2490 / 2,
    "super_glue_rte_v102": 2490 / 2,
}
_T5_MULTI_TASK = (
    _T5_1_0
    | published("Raffel et al. 2020, section 3.1.2", train__targets_length=512)
    | published(
        "google-research/text-to-text-transfer-transformer, t5/data/mixtures.py (all_proportional)",
        # The tasks before it are those of GLUE and SuperGLUE, their mixtures, five others and the corpus.
        **{f"tasks__31__rates__{name}": rate for name, rate in _T5_EXAMPLES.items()},
    )
)
_T5_FINAL = _T5_MULTI_TASK | published(
    "Raffel et al. 2020, section 3.7",
    train__batch_size=2**11,
    total_steps=1_000_000,
    tasks__31__rates__corpus=2_620_000,
    tasks__31__rates__wmt_t2t_ende_v003=1_000_000,
    tasks__31__rates__wmt15_enfr_v003=1_000_000,
)

_MT5 = (
    published(
        "Xue et al. 2021, section 3",
        **_SPANS,
        **_T5_SCHEDULE,
        train__inputs_length=1024,
        train__batch_size=1024,
        total_steps=1_000_000,
        model__dropout_rate=0.0,
        tasks__107__rates__temperature=1 / 0.3,
        tasks__107__rates__maximum=None,
    )
    | published("google-research/multilingual-t5, README", train__targets_length=256)
    | published("Xue et al. 2021, section 3.2", tasks__106__name="zu")
)

_UMT5 = published(
    "google-research/t5x, t5x/examples/scalable_t5/umt5: pretrain_base.gin and runs/pretraining_common.gin",
    **_lengths(1024, 229),
    **_T5_SCHEDULE,
    train__batch_size=1024,
    total_steps=1_000_000,
    model__dropout_rate=0.0,
    loss__normalize_by="target_tokens",
) | published(
    "Chung et al. 2023, section 4 and algorithm 1",
    objective__is="SpanCorruption",
    tasks__2__rates__yo=1.05e8 / 4.3e12,  # once of what is read in all
    tasks__2__rates__en=1 - 1.05e8 / 4.3e12,  # the rest, less than once
)

_UMT5_XXL = _UMT5 | published(
    "google-research/t5x, t5x/examples/scalable_t5/umt5/optimizer/adafactor_momentum_nofactor.gin",
    optimizer__momentum=0.9,
    optimizer__factored=False,
    optimizer__max_gradient_norm=1.0,
)

_UL2 = published(
    "Tay et al. 2022, section 4.2",
    **_lengths(512, 512),
    train__batch_size=128,
    total_steps=500_000,
    optimizer__is="Adafactor",
    learning_rate__is="InverseSqrt",
) | published(
    "Tay et al. 2022, table 1",
    objective__denoisers__0__mode="R",
    objective__denoisers__0__objective__mean_noise_span_length=3.0,
    objective__denoisers__0__objective__noise_density=0.15,
    objective__denoisers__2__mode="S",
    objective__denoisers__2__objective__noise_density=0.25,
    objective__denoisers__6__mode="X",
    objective__denoisers__6__objective__mean_noise_span_length=64.0,
    objective__denoisers__6__objective__noise_density=0.5,
)

_LONGT5 = (
    published(
        "Guo et al. 2022, section 3.2",
        objective__is="PrincipalSentences",
        objective__counts_once=True,
    )
    | published(
        "google-research/longt5, preprocessors.py",
        objective__gap_rate=0.2,
        objective__least_share=0.33,
        objective__keep_rate=0.1,
        objective__score_noise=0.2,
    )
    | published(
        "Guo et al. 2022, sections 4.1 and 4.1.1",
        **_lengths(4096, 910),
        **_T5_SCHEDULE,
        train__batch_size=128,
        total_steps=1_000_000,
        model__dropout_rate=0.0,
        model__local_radius=127,
    )
)

_SWITCH = published(
    "Fedus et al. 2021, section 4.1",
    train__inputs_length=512,
    train__batch_size=2048,  # 2**20 tokens
    total_steps=550_000,
) | published(
    "Fedus et al. 2021, table 9 and section 2.2",
    model__num_experts=128,
    model__num_experts_per_token=1,
    model__sparse_step=2,
    model__model_dim=768,
    model__mlp_dim=2048,
    model__balance_weight=0.01,
)

ENCODER_DECODER_SETTINGS: dict[str, Settings] = {
    "t5/pretrain_base.gin": _T5_BASE,
    "t5/pretrain_multi_task.gin": _T5_MULTI_TASK,
    "t5/pretrain_final.gin": _T5_FINAL,
    "mt5/pretrain_base.gin": _MT5,
    "umt5/pretrain_base.gin": _UMT5,
    "umt5/pretrain_xxl.gin": _UMT5_XXL,
    "ul2/pretrain_base.gin": _UL2,
    "longt5/pretrain_tglobal_base.gin": _LONGT5
    | published("Guo et al. 2022, section 3.1.2", model__global_block_size=16),
    "longt5/pretrain_local_base.gin": _LONGT5
    | published("Guo et al. 2022, section 3.1.1", model__global_block_size=None),
    "switch_transformer/pretrain_base.gin": _SWITCH,
}
