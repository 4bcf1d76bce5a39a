"""Settings that papers publish of the pretraining of decoders; see ``paper_settings``.

A batch that a paper gives in tokens is in rows here: 4M tokens are 2,048 rows of 2,048.
"""

from tests.recipes.paper_settings import Settings, published


def _sizes(source: str, layers: int, dim: int, heads: int | None = None) -> Settings:
    result = published(source, model__num_layers=layers, model__model_dim=dim)
    return result if heads is None else result | published(source, model__num_heads=heads)


_CAUSAL = {"objective__is": "CausalLM"}

_GPT1 = _sizes("Radford et al. 2018, section 4.1", 12, 768, 12) | published(
    "Radford et al. 2018, section 4.1",
    **_CAUSAL,
    train__batch_size=64,
    train__targets_length=512,
    learning_rate__is="LinearWarmupCosine",
    learning_rate__peak=2.5e-4,
    learning_rate__warmup_steps=2000,
    learning_rate__end=0.0,
    optimizer__is="AdamW",
    optimizer__weight_decay_rate=0.01,
    model__mlp_dim=3072,
    model__dropout_rate=0.1,
)

_GPT2 = published(
    "Radford et al. 2019, section 2.3", **_CAUSAL, train__batch_size=512, train__targets_length=1024
)

_GPT3 = published(
    "Brown et al. 2020, appendix B",
    **_CAUSAL,
    objective__isolate_documents=False,
    train__targets_length=2048,
    batch_size_ramp__initial_batch_size=16,  # 32k tokens
    optimizer__is="AdamW",
    optimizer__beta1=0.9,
    optimizer__beta2=0.95,
    optimizer__epsilon=1e-8,
    optimizer__weight_decay_rate=0.1,
    optimizer__max_gradient_norm=1.0,
    learning_rate__is="LinearWarmupCosine",
) | published(
    "Brown et al. 2020, table 2.2",
    tasks__5__rates__common_crawl=60,
    tasks__5__rates__webtext2=22,
    tasks__5__rates__books1=8,
    tasks__5__rates__books2=8,
    tasks__5__rates__wikipedia=3,
)


def _gpt3(layers: int, dim: int, heads: int | None, head_dim: int, rows: int, rate: float) -> Settings:
    return (
        _GPT3
        | _sizes("Brown et al. 2020, table 2.1", layers, dim, heads)
        | published(
            "Brown et al. 2020, table 2.1",
            model__head_dim=head_dim,
            train__batch_size=rows,
            learning_rate__peak=rate,
        )
        | published("Brown et al. 2020, appendix B", learning_rate__end=_tenth(rate))
    )


def _tenth(rate: float) -> float:
    return float(f"{rate / 10:g}")


_LLAMA_RATES = published(
    "Touvron et al. 2023 (LLaMA), table 1",
    tasks__7__rates__common_crawl=67.0,
    tasks__7__rates__c4=15.0,
    tasks__7__rates__github=4.5,
    tasks__7__rates__wikipedia=4.5,
    tasks__7__rates__books=4.5,
    tasks__7__rates__arxiv=2.5,
    tasks__7__rates__stack_exchange=2.0,
)
_LLAMA_OPTIMIZER = {
    "optimizer__is": "AdamW",
    "optimizer__beta1": 0.9,
    "optimizer__beta2": 0.95,
    "optimizer__weight_decay_rate": 0.1,
    "optimizer__max_gradient_norm": 1.0,
    "learning_rate__is": "LinearWarmupCosine",
    "learning_rate__warmup_steps": 2000,
}


def _llama(layers: int, dim: int, heads: int, rate: float) -> Settings:
    return (
        _LLAMA_RATES
        | _sizes("Touvron et al. 2023 (LLaMA), table 2", layers, dim, heads)
        | published(
            "Touvron et al. 2023 (LLaMA), section 2.3 and table 2",
            **_LLAMA_OPTIMIZER,
            train__batch_size=2048,
            learning_rate__peak=rate,
            learning_rate__end=_tenth(rate),
        )
        | published("Touvron et al. 2023 (Llama 2), table 1", **_CAUSAL, train__targets_length=2048)
    )


def _llama2(rate: float) -> Settings:
    return published(
        "Touvron et al. 2023 (Llama 2), section 2.2 and table 1",
        **_CAUSAL,
        **_LLAMA_OPTIMIZER,
        optimizer__epsilon=1e-5,
        train__targets_length=4096,
        train__batch_size=1024,
        learning_rate__peak=rate,
        learning_rate__end=_tenth(rate),
    )


def _llama3(layers: int, dim: int, heads: int, rate: float) -> Settings:
    return (
        _sizes("Dubey et al. 2024, table 3", layers, dim, heads)
        | published("Dubey et al. 2024, table 3", learning_rate__peak=rate, model__num_kv_heads=8)
        | published("Dubey et al. 2024, section 3.2", **_CAUSAL, objective__isolate_documents=True)
        | published(
            "Dubey et al. 2024, section 3.4.1, of 405B",
            optimizer__is="AdamW",
            train__targets_length=8192,
            train__batch_size=2048,
            learning_rate__is="LinearWarmupCosine",
            learning_rate__warmup_steps=8000,
            learning_rate__total_steps=1_200_000,
            learning_rate__end=float(f"{rate / 100:g}"),
        )
    )


_GLM = (
    published("Du et al. 2022, section 2.1", objective__noise_density=0.15, objective__mean_length=3.0)
    | published("Du et al. 2022, appendix A", train__targets_length=512, train__batch_size=1024)
    | published(
        "THUDM/GLM, config/config_block_base.json and config_block_large.json",
        optimizer__is="AdamW",
        optimizer__beta1=0.9,
        optimizer__beta2=0.98,
        optimizer__epsilon=1e-6,
        optimizer__weight_decay_rate=0.1,
        optimizer__max_gradient_norm=1.0,
        learning_rate__is="LinearWarmupCosine",
    )
    | published("THUDM/GLM, arguments.py", model__dropout_rate=0.1)
)
_GLM_BASE = (
    _GLM
    | _sizes("Du et al. 2022, section 3.1", 12, 768, 12)
    | published(
        "THUDM/GLM, config/ds_block_base.sh and config_block_base.json",
        objective__document_rate=0.0,
        objective__sentence_rate=0.0,
        learning_rate__peak=4e-4,
        learning_rate__warmup_steps=6000,  # 0.05 of the steps of the fall
        learning_rate__total_steps=120_000,
        learning_rate__end=2e-5,
    )
)


_GLM_LARGE = (
    _GLM
    | _sizes("Du et al. 2022, section 3.1", 24, 1024, 16)
    | published(
        "Du et al. 2022, section 3.1 and appendix A",
        objective__document_rate=0.0,
        objective__sentence_rate=0.0,
        total_steps=200_000,
    )
    | published(
        "THUDM/GLM, config/ds_block_large.sh and config_block_large.json",
        learning_rate__peak=2e-4,
        learning_rate__warmup_steps=8000,
        learning_rate__total_steps=160_000,
        learning_rate__end=1e-5,
    )
)


def _glm_doc(layers: int, dim: int, heads: int) -> Settings:
    return (
        _sizes("Du et al. 2022, section 3.1", layers, dim, heads)
        | published(
            "Du et al. 2022, section 2.1 and appendix A",
            objective__noise_density=0.15,
            objective__mean_length=3.0,
            objective__min_document_share=0.5,
            train__targets_length=512,
            train__batch_size=1024,
            total_steps=200_000,
        )
        | published("THUDM/GLM, arguments.py, --bert-prob", objective__document_rate=0.5)
    )


_GLM_SENT = _sizes("Du et al. 2022, section 3.1", 24, 1024, 16) | published(
    "Du et al. 2022, section 2.1 and appendix A",
    objective__noise_density=0.15,
    objective__mean_length=3.0,
    train__targets_length=512,
    train__batch_size=1024,
    total_steps=200_000,
)

_UNILM = _sizes("Dong et al. 2019, section 2.4", 24, 1024, 16) | published(
    "Dong et al. 2019, section 2.4",
    objective__noise_density=0.15,
    objective__mask_rate=0.8,
    objective__random_rate=0.1,
    objective__shares__0=0.8,
    objective__predicts_next=True,
    train__inputs_length=512,
    train__batch_size=330,
    total_steps=770_000,
    optimizer__is="AdamW",
    optimizer__beta1=0.9,
    optimizer__beta2=0.999,
    optimizer__weight_decay_rate=0.01,
    learning_rate__is="LinearWarmupLinearDecay",
    learning_rate__peak=3e-5,
    learning_rate__warmup_steps=40_000,
    learning_rate__total_steps=770_000,
    learning_rate__end=0.0,
    model__dropout_rate=0.1,
)

_TRANSFO_XL = published(
    "kimiyoung/transformer-xl, pytorch/train.py",
    objective__is="ContiguousLM",
    optimizer__is="AdamW",
    optimizer__weight_decay_rate=0.0,
    optimizer__max_gradient_norm=0.25,
    learning_rate__is="LinearWarmupCosine",
    learning_rate__end=0.0,
    model__same_length=False,
    model__max_distance=None,
)
_TRANSFO_XL_BASE = (
    _TRANSFO_XL
    | _sizes("kimiyoung/transformer-xl, pytorch/run_wt103_base.sh", 16, 410, 10)
    | published(
        "kimiyoung/transformer-xl, pytorch/run_wt103_base.sh",
        model__memory_length=150,
        model__mlp_dim=2100,
        model__dropout_rate=0.1,
        model__attention_dropout_rate=0.0,
        train__targets_length=150,
        train__batch_size=60,
        total_steps=200_000,
        learning_rate__peak=2.5e-4,
        learning_rate__warmup_steps=0,
    )
)
_TRANSFO_XL_LARGE = (
    _TRANSFO_XL
    | _sizes("kimiyoung/transformer-xl, tf/scripts/wt103_large_tpu.sh", 18, 1024, 16)
    | published(
        "kimiyoung/transformer-xl, tf/scripts/wt103_large_tpu.sh",
        model__memory_length=384,
        model__mlp_dim=4096,
        model__div_val=4,
        model__dropout_rate=0.2,
        model__attention_dropout_rate=0.2,
        model__init_stddev=0.005,
        train__targets_length=384,
        train__batch_size=128,
        total_steps=4_000_000,
        learning_rate__peak=2.5e-4,
        learning_rate__warmup_steps=16_000,
    )
)

_XLNET = published(
    "Yang et al. 2019, section 3.1 and appendix A.4.1",
    objective__is="ContiguousPermutationLM",
    objective__partial=6,
    objective__max_span=5,
    train__inputs_length=512,
    optimizer__is="AdamW",
    optimizer__weight_decay_rate=0.01,
    optimizer__epsilon=1e-6,
    learning_rate__is="LinearWarmupLinearDecay",
    model__dropout_rate=0.1,
    model__head_dim=64,
) | published(
    "zihangdai/xlnet, README.md: seq_len, reuse_len and mem_len of pretraining",
    objective__reuse_length=256,
    model__reuse_length=256,
    model__memory_length=384,
)
_XLNET_BASE = (
    _XLNET
    | _sizes("Yang et al. 2019, section 3.4", 12, 768, 12)
    | published(
        "Devlin et al. 2019, appendix A.2",
        train__batch_size=256,
        total_steps=1_000_000,
        learning_rate__peak=1e-4,
        learning_rate__warmup_steps=10_000,
        optimizer__beta1=0.9,
        optimizer__beta2=0.999,
    )
)
_XLNET_LARGE = (
    _XLNET
    | _sizes("Yang et al. 2019, appendix A.4.1", 24, 1024, 16)
    | published(
        "Yang et al. 2019, appendix A.4.1",
        train__batch_size=8192,
        total_steps=500_000,
        learning_rate__peak=4e-4,
        learning_rate__warmup_steps=40_000,
    )
)

# Of all three stages.
ULMFIT = (
    _sizes("Howard and Ruder 2018, section 4.1", 3, 400)
    | published(
        "Howard and Ruder 2018, section 4.1",
        model__hidden_dim=1150,
        model__tie_word_embeddings=True,
        model__layer_dropout_rate=0.3,
        model__input_dropout_rate=0.4,
        model__embedding_dropout_rate=0.05,
        model__weight_dropout_rate=0.5,
        train__batch_size=64,
        optimizer__is="AdamW",
        optimizer__beta1=0.7,
        optimizer__beta2=0.99,
    )
    | published(
        "Merity et al. 2018, section 5",
        model__activation_regularization=2.0,
        model__temporal_activation_regularization=1.0,
    )
)
ULMFIT_LANGUAGE_MODEL = (
    ULMFIT
    | published(
        "Howard and Ruder 2018, section 4.1",
        objective__is="ContiguousLM",
        train__targets_length=70,
        model__dropout_rate=0.4,
    )
    | published("Merity et al. 2018, section 5", optimizer__max_gradient_norm=0.25)
)

DECODER_SETTINGS: dict[str, Settings] = {
    "gpt1/pretrain_117m.gin": _GPT1,
    "gpt2/pretrain.gin SIZE=124m": _GPT2 | _sizes("Radford et al. 2019, table 2", 12, 768),
    "gpt2/pretrain.gin SIZE=355m": _GPT2 | _sizes("Radford et al. 2019, table 2", 24, 1024),
    "gpt2/pretrain.gin SIZE=774m": _GPT2 | _sizes("Radford et al. 2019, table 2", 36, 1280),
    "gpt2/pretrain.gin SIZE=1_5b": _GPT2 | _sizes("Radford et al. 2019, table 2", 48, 1600),
    "gpt3/pretrain.gin SIZE=125m": _gpt3(12, 768, 12, 64, 256, 6e-4),
    "gpt3/pretrain.gin SIZE=350m": _gpt3(24, 1024, 16, 64, 256, 3e-4),
    "gpt3/pretrain.gin SIZE=760m": _gpt3(24, 1536, 16, 96, 256, 2.5e-4),
    "gpt3/pretrain.gin SIZE=1_3b": _gpt3(24, 2048, None, 128, 512, 2e-4),  # 24 heads there don't fit
    "gpt3/pretrain.gin SIZE=2_7b": _gpt3(32, 2560, 32, 80, 512, 1.6e-4),
    "gpt3/pretrain.gin SIZE=6_7b": _gpt3(32, 4096, 32, 128, 1024, 1.2e-4),
    "gpt3/pretrain.gin SIZE=13b": _gpt3(40, 5140, 40, 128, 1024, 1e-4),
    "gpt3/pretrain.gin SIZE=175b": _gpt3(96, 12288, 96, 128, 1600, 6e-5),
    "llama/pretrain.gin SIZE=7b": _llama(32, 4096, 32, 3e-4),
    "llama/pretrain.gin SIZE=13b": _llama(40, 5120, 40, 3e-4),
    "llama/pretrain.gin SIZE=30b": _llama(60, 6656, 52, 1.5e-4),
    "llama/pretrain.gin SIZE=65b": _llama(80, 8192, 64, 1.5e-4),
    "llama2/pretrain.gin SIZE=7b": _llama2(3e-4),
    "llama2/pretrain.gin SIZE=13b": _llama2(3e-4),
    "llama2/pretrain.gin SIZE=34b": _llama2(1.5e-4)
    | _sizes("facebookresearch/codellama, 34B", 48, 8192, 64)
    | published("facebookresearch/codellama, 34B", model__num_kv_heads=8, model__mlp_dim=22016),
    "llama2/pretrain.gin SIZE=70b": _llama2(1.5e-4),
    "llama3/pretrain_8b.gin": _llama3(32, 4096, 32, 3e-4)
    | published("Dubey et al. 2024, table 3", model__mlp_dim=14336),
    "llama3/pretrain_70b.gin": _llama3(80, 8192, 64, 1.5e-4)
    | published("Dubey et al. 2024, table 3", model__mlp_dim=28672),
    "llama3/pretrain_405b.gin": _llama3(126, 16384, 128, 8e-5)
    | published("Dubey et al. 2024, table 3", model__mlp_dim=53248)
    | published(
        "Dubey et al. 2024, section 3.4.1",
        batch_size_ramp__batch_sizes__0=512,  # 4M tokens
        batch_size_ramp__batch_sizes__1=1024,  # 8M tokens
        batch_size_ramp__until_rows__0=-(-252_000_000 // 8192),
        batch_size_ramp__until_rows__1=-(-2_870_000_000_000 // 8192),
    ),
    "glm_orig/pretrain_base.gin": _GLM_BASE | published("Du et al. 2022, appendix A", total_steps=120_000),
    "glm_orig/pretrain_large.gin": _GLM_LARGE,
    "glm_orig/pretrain_large_doc.gin": _glm_doc(24, 1024, 16),
    "glm_orig/pretrain_large_sent.gin": _GLM_SENT,
    "glm_orig/pretrain_410m.gin": _glm_doc(30, 1024, 16),
    "glm_orig/pretrain_515m.gin": _glm_doc(30, 1152, 18),
    "unilm/pretrain_large.gin": _UNILM,
    "transfo_xl/pretrain_base.gin": _TRANSFO_XL_BASE,
    "transfo_xl/pretrain_large.gin": _TRANSFO_XL_LARGE,
    "ulmfit/pretrain_wikitext103.gin": ULMFIT_LANGUAGE_MODEL,
    "xlnet/pretrain_base.gin": _XLNET_BASE,
    "xlnet/pretrain_large.gin": _XLNET_LARGE,
}
_BILLION = 10**9
# Tokens of the warm-up, until the rate is at its lowest, and of the whole run.
TOKENS: dict[str, tuple[float, float, float]] = {
    f"gpt3/pretrain.gin SIZE={size}": (0.375 * _BILLION, 260 * _BILLION, 300 * _BILLION)
    for size in ("125m", "350m", "760m", "1_3b", "2_7b", "6_7b", "13b", "175b")
}
# Tokens of the whole run: LLaMA's table 2, Llama 2's table 1, the model card of Llama 3 8B and 70B.
TOKENS_IN_ALL = {
    "llama/pretrain.gin SIZE=7b": 1000 * _BILLION,
    "llama/pretrain.gin SIZE=13b": 1000 * _BILLION,
    "llama/pretrain.gin SIZE=30b": 1400 * _BILLION,
    "llama/pretrain.gin SIZE=65b": 1400 * _BILLION,
    "llama2/pretrain.gin SIZE=7b": 2000 * _BILLION,
    "llama2/pretrain.gin SIZE=13b": 2000 * _BILLION,
    "llama2/pretrain.gin SIZE=34b": 2000 * _BILLION,
    "llama2/pretrain.gin SIZE=70b": 2000 * _BILLION,
    "llama3/pretrain_8b.gin": 15_000 * _BILLION,
    "llama3/pretrain_70b.gin": 15_000 * _BILLION,
}
