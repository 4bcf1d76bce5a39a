"""Settings that papers publish of their fine-tuning.

``FINE_TUNING_SETTINGS`` is like ``paper_settings.PAPER_SETTINGS``. Besides fields of the experiment there are two that
papers publish in place of steps: ``epochs`` over the training rows, and ``warmup_share`` of the steps.
"""

from tests.recipes.decoder_settings import ULMFIT, ULMFIT_LANGUAGE_MODEL
from tests.recipes.paper_settings import Settings, published

GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
_SUPER_GLUE = ("boolq", "cb", "copa", "multirc", "rte", "wic", "record")


def _of_tasks(recipe: str, tasks: tuple[str, ...], *settings: Settings) -> dict[str, Settings]:
    """Return the same settings for several tasks of a recipe."""
    shared: Settings = {}
    for each in settings:
        shared |= each
    return {f"{recipe}.gin TASK={task}": shared for task in tasks}


_BERT = published(
    "google-research/bert, optimization.py",
    optimizer__beta1=0.9,
    optimizer__beta2=0.999,
    optimizer__epsilon=1e-6,
    optimizer__weight_decay_rate=0.01,
    optimizer__bias_correction=False,
    optimizer__max_gradient_norm=1.0,
    learning_rate__end=0.0,
) | published("Devlin et al. 2019, appendix A.3", model__dropout_rate=0.1)
_BERT_GLUE = (
    _BERT
    | published("Devlin et al. 2019, section 4.1", train__batch_size=32, epochs=3, learning_rate__peak=2e-5)
    | published("google-research/bert, run_classifier.py", train__inputs_length=128, warmup_share=0.1)
)
_BERT_SQUAD = (
    _BERT
    | published("Devlin et al. 2019, section 4.2", train__batch_size=32, epochs=3, learning_rate__peak=5e-5)
    | published("google-research/bert, run_squad.py", train__inputs_length=384, warmup_share=0.1)
)
_BERT_SUPER_GLUE = published("Wang et al. 2019, section 5", learning_rate__peak=1e-5, epochs=10) | published(
    "jiant-v1-legacy, superglue_bert.conf", train__batch_size=4, train__inputs_length=256
)

_ROBERTA = published(
    "Liu et al. 2019, table 10",
    optimizer__weight_decay_rate=0.1,
    learning_rate__end=0.0,
) | published(
    "fairseq, examples/roberta/README.glue.md and README.race.md",
    train__inputs_length=512,
    optimizer__beta1=0.9,
    optimizer__beta2=0.98,
    optimizer__epsilon=1e-6,
    optimizer__max_gradient_norm=None,
    model__dropout_rate=0.1,
)


def _roberta_glue(rate: float, rows: int, steps: int, warmup_steps: int) -> Settings:
    return _ROBERTA | published(
        "fairseq, examples/roberta/README.glue.md",
        learning_rate__peak=rate,
        train__batch_size=rows,
        total_steps=steps,
        learning_rate__warmup_steps=warmup_steps,
    )


_ROBERTA_SQUAD = _ROBERTA | published(
    "Liu et al. 2019, table 10",
    learning_rate__peak=1.5e-5,
    train__batch_size=48,
    optimizer__weight_decay_rate=0.01,
    epochs=2,
    warmup_share=0.06,
)
_ROBERTA_RACE = _ROBERTA | published(
    "Liu et al. 2019, table 10",
    learning_rate__peak=1e-5,
    train__batch_size=16,
    epochs=4,
    warmup_share=0.06,
)
_ROBERTA_REFERENTS = _ROBERTA | published(
    "fairseq, examples/roberta/wsc/README.md",
    learning_rate__peak=2e-5,
    train__batch_size=64,
    optimizer__weight_decay_rate=0.01,
    total_steps=2000,
    learning_rate__warmup_steps=250,
    loss__ranking=None,
)


def _albert(
    rate: float, rows: int, dropout_rate: float, steps: int, warmup_steps: int, length: int = 512
) -> Settings:
    return published(
        "Lan et al. 2020, table 14",
        learning_rate__peak=rate,
        train__batch_size=rows,
        model__dropout_rate=dropout_rate,
        total_steps=steps,
        learning_rate__warmup_steps=warmup_steps,
        train__inputs_length=length,
    ) | published(
        "google-research/albert, optimization.py",
        optimizer__weight_decay_rate=0.01,
        optimizer__epsilon=1e-6,
        optimizer__bias_correction=False,
    )


_ELECTRA = published(
    "Clark et al. 2020, table 7",
    learning_rate__peak=1e-4,
    learning_rate__end=0.0,
    optimizer__layer_decay=0.8,
    optimizer__epsilon=1e-6,
    optimizer__beta1=0.9,
    optimizer__beta2=0.999,
    optimizer__weight_decay_rate=0.0,
    model__dropout_rate=0.1,
    train__batch_size=32,
    warmup_share=0.1,
    epochs=3,
) | published(
    "google-research/electra, configure_finetuning.py and optimization.py",
    train__inputs_length=128,
    optimizer__bias_correction=False,
)
_ELECTRA_LONG = _ELECTRA | published("Clark et al. 2020, table 7", epochs=10)

_XLNET = published(
    "Yang et al. 2019, appendix A.4.2",
    train__inputs_length=512,
    train__batch_size=32,
    learning_rate__peak=2e-5,
    learning_rate__end=0.0,
    total_steps=12_000,
    optimizer__weight_decay_rate=0.01,
    optimizer__epsilon=1e-6,
    optimizer__layer_decay=None,
    model__dropout_rate=0.1,
) | published(
    "zihangdai/xlnet, scripts and model_utils.py",
    learning_rate__warmup_steps=1000,
    optimizer__bias_correction=False,
    optimizer__max_gradient_norm=1.0,
)
_XLNET_SQUAD = {name: value for name, value in _XLNET.items() if name != "optimizer.layer_decay"} | published(
    "Yang et al. 2019, appendix A.4.2",
    train__batch_size=48,
    learning_rate__peak=3e-5,
    total_steps=8000,
    optimizer__layer_decay__factor=0.75,
    optimizer__layer_decay__last_layer_power=0,
)
_XLNET_MNLI = {
    name: value for name, value in _XLNET.items() if name != "learning_rate.warmup_steps"
} | published(
    "Yang et al. 2019, appendix A.4.2",
    train__inputs_length=128,
    train__batch_size=128,
    total_steps=10_000,
)
_XLNET_README = published(
    "zihangdai/xlnet, README.md and run_classifier.py",
    train__batch_size=32,
    optimizer__weight_decay_rate=0.0,
    optimizer__bias_correction=True,
    optimizer__epsilon=1e-8,
    optimizer__max_gradient_norm=1.0,
    optimizer__layer_decay=None,
    model__dropout_rate=0.1,
)
_XLNET_STSB = _XLNET_README | published(
    "zihangdai/xlnet, README.md",
    train__inputs_length=128,
    learning_rate__peak=5e-5,
    total_steps=1200,
    learning_rate__warmup_steps=120,
)
_XLNET_IMDB = _XLNET_README | published(
    "zihangdai/xlnet, README.md",
    train__inputs_length=512,
    learning_rate__peak=2e-5,
    total_steps=4000,
    learning_rate__warmup_steps=500,
)

_SPANBERT = published(
    "facebookresearch/SpanBERT, README.md, run_squad.py and run_glue.py",
    learning_rate__peak=2e-5,  # one of the five rates in Joshi et al. 2020, appendix B
    train__batch_size=32,  # one of the two
    optimizer__weight_decay_rate=0.01,
    optimizer__bias_correction=False,
    warmup_share=0.1,
    learning_rate__end=0.0,
)
_SPANBERT_SQUAD = _SPANBERT | published("Joshi et al. 2020, appendix B", train__inputs_length=512, epochs=4)
_SPANBERT_GLUE = _SPANBERT | published("Joshi et al. 2020, appendix B", train__inputs_length=128, epochs=10)
_SPANBERT_MRQA = (
    "mrqa_newsqa",
    "mrqa_trivia_qa",
    "mrqa_search_qa",
    "mrqa_hotpot_qa",
    "mrqa_natural_questions",
)
_SPANBERT_COLA = _SPANBERT_GLUE | published("Joshi et al. 2020, appendix B", epochs=4)

_ULMFIT = published(
    "Howard and Ruder 2018, section 3.2",
    learning_rate__is="SlantedTriangular",
    learning_rate__cut_fraction=0.1,
    learning_rate__ratio=32.0,
    optimizer__layer_decay__factor=0.38461538,
)
_ULMFIT_LANGUAGE_MODEL = (
    ULMFIT_LANGUAGE_MODEL
    | _ULMFIT
    | published("Howard and Ruder 2018, section 4.1", learning_rate__peak=0.004)
)
_ULMFIT_IMDB = (
    ULMFIT
    | _ULMFIT
    | published(
        "Howard and Ruder 2018, section 4.1",
        learning_rate__peak=0.01,
        model__classifier__hidden_dim=50,
        model__classifier__pooled_dropout_rate=0.4,
        model__pieces__length=70,
    )
    | published("Howard and Ruder 2018, section 3.3", unfreezing__every_epochs=1.0)
    | published("Howard and Ruder 2018, section 5", epochs=50)
    | published(
        "fastai/fastai, courses/dl2/imdb_scripts/train_clas.py",
        model__classifier__dropout_rate=0.1,
        model__pieces__num_trained=20,
        optimizer__layer_decay__last_layer_power=1,
        optimizer__max_gradient_norm=25.0,
    )
)

_GPT = published(
    "Radford et al. 2018, section 4.1",
    learning_rate__peak=6.25e-5,
    learning_rate__end=0.0,
    train__batch_size=32,
    epochs=3,
    warmup_share=0.002,
    model__classifier_dropout_rate=0.1,
    model__dropout_rate=0.1,
    loss__auxiliary_lm_weight=0.5,
    train__inputs_length=512,
) | published(
    "openai/finetune-transformer-lm, train.py",
    optimizer__beta1=0.9,
    optimizer__beta2=0.999,
    optimizer__epsilon=1e-8,
    optimizer__weight_decay_rate=0.01,
    optimizer__max_gradient_norm=1.0,
    loss__normalize_by="sequences",
)
_ONE_ORDER = published("Radford et al. 2018, section 3.3", framing__both_orders=False)
_BOTH_ORDERS = published("Radford et al. 2018, section 3.3", framing__both_orders=True)

_T5 = published(
    "Raffel et al. 2020, section 3.1.2",
    total_steps=2**18,
    train__batch_size=128,
    train__inputs_length=512,
    learning_rate__value=0.001,
    model__dropout_rate=0.1,
    intervals__evaluate_every_steps=5000,
    intervals__save_every_steps=5000,
)
_T5_BASE = published(
    "Raffel et al. 2020, section 3.1.1",
    model__num_encoder_layers=12,
    model__num_decoder_layers=12,
    model__model_dim=768,
    model__mlp_dim=3072,
    model__num_heads=12,
)
_T5_BEAMS = published(
    "Raffel et al. 2020, section 3.7",
    evaluations__0__generation__num_beams=4,
    evaluations__0__generation__length_penalty_alpha=0.6,
)
_GREEDY = published("Raffel et al. 2020, section 3.1.2", evaluations__0__generation__num_beams=1)


def _t5(mixture: str, targets_length: int, *more: Settings) -> Settings:
    settings = (
        _T5
        | _T5_BASE
        | published(
            "google-research/text-to-text-transfer-transformer, t5/models/gin/sequence_lengths",
            train__mixture=mixture,
            train__targets_length=targets_length,
        )
    )
    for each in more:
        settings |= each
    return settings


_UNILM = published(
    "Dong et al. 2019, sections 3.1 and 3.3",
    train__batch_size=32,
    train__masked_targets__noise_density=0.7,
    loss__label_smoothing=0.1,
    learning_rate__end=0.0,
) | published(
    "microsoft/unilm, unilm-v1, README.md and run_seq2seq.py",
    warmup_share=0.1,
    optimizer__weight_decay_rate=0.01,
    model__dropout_rate=0.1,
    train__masked_targets__mask_rate=0.8,
    train__masked_targets__random_rate=0.1,
)
_UNILM_SUMMARIES = (
    _UNILM
    | published(
        "Dong et al. 2019, section 3.1",
        epochs=30,
        train__inputs_length=768,
        learning_rate__peak=3e-5,  # that of pretraining, section 2.4
        evaluations__0__generation__num_beams=5,
    )
    | published(
        "microsoft/unilm, unilm-v1, README.md",
        train__targets_length=128,
        evaluations__0__generation__length_penalty_alpha=1.0,
    )
)
_UNILM_QUESTIONS = (
    _UNILM
    | published("Dong et al. 2019, section 3.3", epochs=10, learning_rate__peak=2e-5)
    | published(
        "microsoft/unilm, unilm-v1, README.md",
        train__inputs_length=512,
        train__targets_length=48,
        evaluations__0__generation__num_beams=1,
    )
)

FINE_TUNING_SETTINGS: dict[str, Settings] = {
    **_of_tasks("bert/glue", GLUE, _BERT_GLUE),
    "bert/squad_v1.gin": _BERT_SQUAD,
    **_of_tasks("bert/super_glue", _SUPER_GLUE, _BERT_SUPER_GLUE),
    "bert/super_glue_wsc.gin": _BERT_SUPER_GLUE,
    "roberta/glue.gin TASK=cola": _roberta_glue(1e-5, 16, 5336, 320),
    "roberta/glue.gin TASK=sst2": _roberta_glue(1e-5, 32, 20935, 1256),
    "roberta/glue.gin TASK=mrpc": _roberta_glue(1e-5, 16, 2296, 137),
    "roberta/glue.gin TASK=stsb": _roberta_glue(2e-5, 16, 3598, 214),
    "roberta/glue.gin TASK=qqp": _roberta_glue(1e-5, 32, 113272, 28318),
    "roberta/glue.gin TASK=mnli": _roberta_glue(1e-5, 32, 123873, 7432),
    "roberta/glue.gin TASK=qnli": _roberta_glue(1e-5, 32, 33112, 1986),
    "roberta/glue.gin TASK=rte": _roberta_glue(2e-5, 16, 2036, 122),
    "roberta/squad.gin TASK=v1": _ROBERTA_SQUAD,
    "roberta/squad.gin TASK=v2": _ROBERTA_SQUAD,
    "roberta/race.gin": _ROBERTA_RACE,
    "roberta/super_glue_wsc.gin": _ROBERTA_REFERENTS,
    "roberta/glue.gin TASK=wnli": _ROBERTA_REFERENTS,
    "albert/glue.gin TASK=cola": _albert(1e-5, 16, 0.0, 5336, 320),
    "albert/glue.gin TASK=stsb": _albert(2e-5, 16, 0.0, 3598, 214),
    "albert/glue.gin TASK=sst2": _albert(1e-5, 32, 0.0, 20935, 1256),
    "albert/glue.gin TASK=mnli": _albert(3e-5, 128, 0.0, 10000, 1000),
    "albert/glue.gin TASK=qnli": _albert(1e-5, 32, 0.0, 33112, 1986),
    "albert/glue.gin TASK=qqp": _albert(5e-5, 128, 0.1, 14000, 1000),
    "albert/glue.gin TASK=rte": _albert(3e-5, 32, 0.1, 800, 200),
    "albert/glue.gin TASK=mrpc": _albert(2e-5, 32, 0.0, 800, 200),
    "albert/glue.gin TASK=wnli": _albert(2e-5, 16, 0.1, 2000, 250),
    "albert/squad.gin TASK=v1": _albert(5e-5, 48, 0.0, 3649, 365, length=384),
    "albert/squad.gin TASK=v2": _albert(3e-5, 48, 0.0, 8144, 814),
    "albert/race.gin": _albert(2e-5, 32, 0.1, 12000, 1000),
    **_of_tasks("electra/glue", GLUE, _ELECTRA),
    **_of_tasks("electra/glue", ("rte", "stsb"), _ELECTRA_LONG),
    "xlnet/race.gin": _XLNET,
    "xlnet/squad.gin TASK=v1": _XLNET_SQUAD,
    "xlnet/squad.gin TASK=v2": _XLNET_SQUAD,
    "xlnet/glue.gin TASK=mnli": _XLNET_MNLI,
    "xlnet/glue.gin TASK=stsb": _XLNET_STSB,
    "xlnet/imdb.gin": _XLNET_IMDB,
    "ulmfit/finetune_lm_imdb.gin": _ULMFIT_LANGUAGE_MODEL,
    "ulmfit/classify_imdb.gin": _ULMFIT_IMDB,
    **_of_tasks("spanbert/finetune", ("squad_v1", "squad_v2"), _SPANBERT_SQUAD),
    **_of_tasks("spanbert/finetune", (*GLUE, "tacred"), _SPANBERT_GLUE),
    "spanbert/finetune.gin TASK=cola": _SPANBERT_COLA,
    **_of_tasks("spanbert/finetune", _SPANBERT_MRQA, _SPANBERT_SQUAD),
    **_of_tasks(
        "gpt1/finetune",
        ("sst2", "cola", "mnli", "qnli", "rte", "snli", "scitail", "race", "story_cloze"),
        _GPT,
        _ONE_ORDER,
    ),
    **_of_tasks("gpt1/finetune", ("mrpc", "stsb", "qqp"), _GPT, _BOTH_ORDERS),
    "t5/finetune.gin TASK=glue": _t5("glue_v002_proportional", 84, _GREEDY),
    "t5/finetune.gin TASK=super_glue": _t5("super_glue_v102_proportional", 62, _GREEDY),
    "t5/one_task.gin": _t5("super_glue_rte_v102", 84, _GREEDY)
    | published(
        "Raffel et al. 2020, section 3.7",
        train__batch_size=8,
        intervals__evaluate_every_steps=1000,
        intervals__save_every_steps=1000,
    ),
    "t5/finetune.gin TASK=squad": _t5("squad_v010_allanswers", 97, _GREEDY),
    "t5/finetune.gin TASK=cnn_dailymail": _t5("cnn_dailymail_v002", 512, _T5_BEAMS),
    "t5/finetune.gin TASK=wmt_en_de": _t5("wmt_t2t_ende_v003", 512, _T5_BEAMS),
    "t5/finetune.gin TASK=wmt_en_fr": _t5("wmt15_enfr_v003", 512, _T5_BEAMS),
    "t5/finetune.gin TASK=wmt_en_ro": _t5("wmt16_enro_v003", 512, _T5_BEAMS),
    "flan/instruction_tuning.gin": published(
        "Wei et al. 2021, section 2.4",
        train__inputs_length=1024,
        train__targets_length=1024 + 256,  # in one stream
        train__layout="decoder",
        total_steps=30_000,
        optimizer__is="Adafactor",
        learning_rate__value=3e-5,
        max_examples=30_000,
    ),
    "unilm/cnn_dailymail.gin": _UNILM_SUMMARIES,
    "unilm/squad_questions.gin": _UNILM_QUESTIONS,
}
