"""Options that a combination would ignore: each field changes something, or is refused."""

import ast
import dataclasses
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import t5x_like
from t5x_like.corpora.pages.html_text import Html
from t5x_like.corpora.pages.page_reader import PageReaderConfig
from t5x_like.corpora.rules.contamination import Contamination
from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.inference.generator import GenerationConfig
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.adagrad import Adagrad
from t5x_like.optimizers.lamb import Lamb
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW, gradient_weights
from t5x_like.optimizers.schedules import (
    Constant,
    Factors,
    InverseSqrt,
    LinearWarmupCosine,
    LinearWarmupLinearDecay,
    Noam,
    SlantedTriangular,
    WarmupStableDecay,
)
from t5x_like.optimizers.sgd import Sgd
from t5x_like.optimizers.stable_adamw import StableAdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.blank_infilling import BlankInfilling
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.objectives.contiguous_permutation_lm import ContiguousPermutationLM
from t5x_like.text.objectives.fill_in_the_middle import FillInTheMiddle
from t5x_like.text.objectives.knowledge_masking import KnowledgeMasking
from t5x_like.text.objectives.permutation_lm import PermutationLM
from t5x_like.text.tasks.mixtures import Proportional
from t5x_like.text.tasks.pretraining import PretrainingTask, corpus_tasks
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.loss_spikes import LossSpikes
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.run_config import Intervals
from t5x_like.value_types import parameter_types

ROOT = Path(t5x_like.__file__).parent

# Values that show where half or twice the default would not.
TELLING = {
    "learning_rate": 0.3,
    "max_gradient_norm": 20.0,
    "layer_decay": 0.5,
    "rates": (("*/kernel", 3.0),),
    "min_dim_size_to_factor": 4,
    "epsilon": 0.3,
    "epsilon1": 0.3,
    "epsilon2": 0.1,
    "max_parameter_scale": 0.2,
    "step_offset": -2,
    "initial_accumulator": 0.7,
}


def other_value(owner, field):
    if field.name in TELLING:
        return TELLING[field.name]
    if isinstance(field.default, bool):
        return not field.default
    if isinstance(field.default, float):
        return field.default / 2 or 0.1
    annotation = parameter_types(owner)[field.name]
    choices = [each for each in typing.get_args(annotation) if isinstance(each, str)]
    if choices:
        return next(each for each in choices if each != field.default)
    if field.default is None and float in typing.get_args(annotation):
        return 0.1
    pytest.fail(f"{owner.__name__}.{field.name} is new here; give it a telling value")


KERNEL = np.random.default_rng(0).normal(size=(2, 6, 8)) * np.array([[[0.01]], [[1.0]]])
PARAMS = {"encoder": {"layers": {"kernel": KERNEL.astype(np.float32)}}}
AXES = {"encoder": {"layers": {"kernel": ("layers", "embed", "mlp")}}}


def updates_of(optimizer):
    """Return three updates of an optimizer for gradients of growing size."""
    params, rule = jax.tree.map(jnp.asarray, PARAMS), optimizer.build(AXES)
    state, seen = rule.init(params), []
    for step in range(3):
        draws = np.random.default_rng(step + 1).normal(size=KERNEL.shape)
        draws = {"encoder": {"layers": {"kernel": jnp.asarray(4.0**step * draws, jnp.float32)}}}
        moved = jax.tree.map(jnp.subtract, gradient_weights(rule, state, params), params)
        gradients = jax.tree.map(jnp.add, draws, moved)
        updates, state = rule.update(gradients, state, params)
        params = optax.apply_updates(params, updates)
        seen += jax.tree.leaves(updates)
    return np.concatenate([np.ravel(each) for each in seen])


def is_switch(field):
    """Return whether another value of a field may leave other fields without effect."""
    return isinstance(field.default, bool | str) or field.default is None


@pytest.mark.parametrize(
    "optimizer", [Adafactor, AdamW, StableAdamW, ScheduleFreeAdamW, Lamb, Lion, Sgd, Adagrad]
)
def test_each_option_of_an_optimizer_changes_updates_or_is_refused(optimizer):
    fields = {each.name: each for each in dataclasses.fields(optimizer)}
    # Weights are small, and are factored only where that is said.
    usual: dict[str, Any] = (
        {"min_dim_size_to_factor": 1} if optimizer is Adafactor else {"learning_rate": 0.1}
    )
    switches = [
        {},
        *({name: other_value(optimizer, each)} for name, each in fields.items() if is_switch(each)),
    ]
    for switch in switches:
        kept = usual if switch.get("factored", True) else {}  # which has no use for it
        base = optimizer(**(kept | switch))
        before = updates_of(base)
        for name in fields.keys() - switch.keys():
            value = 7 if name in usual else other_value(optimizer, fields[name])
            try:
                changed = optimizer(**(kept | switch | {name: value}))
            except ValueError as error:
                assert "has no effect" in str(error)  # noqa: PT017
                continue
            assert not np.array_equal(updates_of(changed), before), (
                f"{optimizer.__name__}.{name} with {switch}"
            )


SUITE: Any = {"checkpoint": "c", "tasks": ("t",), "output_dir": "o"}
BEAMS = GenerationConfig(num_beams=4)
COMMON: dict[Any, dict[str, Any]] = {
    GenerationConfig: {},
    TaskEvaluation: {"mixture": "m", "inputs_length": 8, "targets_length": 8},
    RunEvaluation: {"checkpoint": "c", "evaluations": (), "output_dir": "o"},
    RunPrediction: {"checkpoint": "c", "task": "t"},
    SuiteEvaluation: SUITE,
    LoaderConfig: {"mixture": "m", "batch_size": 4, "inputs_length": 8, "targets_length": 8},
    Distillation: {"teacher": "t"},
    LossSpikes: {},
    Intervals: {},
    TextTask: {"name": "t", "vocabulary": "bytes", "input_template": "{a}", "target_template": "{b}"},
    PretrainingTask: {"name": "t", "vocabulary": "bytes"},
    WarmupStableDecay: {"peak": 1.0, "warmup_steps": 5, "total_steps": 20},
    Contamination: {"texts": (("set", "text"),)},
}
PLAIN: Any = {"files": {"train": "a.txt"}}


@pytest.mark.parametrize(
    ("owner", "option", "without", "used"),
    [
        (GenerationConfig, {"top_k": 5}, {}, {"temperature": 1.0}),
        (GenerationConfig, {"top_p": 0.9}, {}, {"temperature": 1.0}),
        (GenerationConfig, {"length_penalty_alpha": 1.0}, {}, {"num_beams": 2}),
        (TaskEvaluation, {"generation": BEAMS}, {"method": "rank"}, {"method": "generate"}),
        (RunEvaluation, {"ensemble_mean": "logits"}, {}, {"ensemble": ("d",)}),
        (RunPrediction, {"ensemble_mean": "logits"}, {}, {"ensemble": ("d",)}),
        (SuiteEvaluation, {"length_penalty": 1.0}, {}, {"num_beams": 4}),
        (LoaderConfig, {"prefix_attention": "causal"}, {}, {"layout": "decoder"}),
        (LoaderConfig, {"on_corruption": "quarantine"}, {}, {"cache": "d"}),
        (LoaderConfig, {"group_by_length": True}, {"layout": "decoder"}, {"layout": "encoder"}),
        (LoaderConfig, {"loss_on_targets_only": False}, {}, {"layout": "decoder"}),
        (Distillation, {"num_logits": 8}, {}, {"logits_dir": "d", "hidden_states_weight": 0.0}),
        (Distillation, {"temperature": 3.0}, {"soft_targets_weight": 0.0}, {}),
        (Distillation, {"soft_target_tokens": "targets"}, {"soft_targets_weight": 0.0}, {}),
        (LossSpikes, {"max_returns": 3}, {}, {"action": "return"}),
        (Intervals, {}, {"profile_steps": (9, 3)}, {"profile_steps": (3, 9)}),
        (TextTask, {"delimiter": ";"}, {"files": {"train": "a.tsv"}}, {"files": {"train": "a.csv.gz"}}),
        (TextTask, {"columns": ("a",)}, {"files": {"train": "a.jsonl"}}, {"files": {"train": "a.tsv"}}),
        (
            TextTask,
            {},
            {"files": {"train": "a.csv"}, "format": "tsv", "delimiter": ";"},
            {"files": {"train": "a.jsonl"}},
        ),
        (PretrainingTask, {"separator": "blank_line"}, {"files": {"train": "a.jsonl.zst"}}, PLAIN),
        (PretrainingTask, {"separator": "blank_line"}, {"corpus": "c"}, PLAIN),
        (Proportional, {"scale": 2.0}, {"maximum": None}, {}),
        (WarmupStableDecay, {"end": 0.1}, {"decay_steps": 0}, {"decay_steps": 5}),
        (WarmupStableDecay, {"decay_shape": "linear"}, {"decay_steps": 0}, {"decay_steps": 5}),
        (PermutationLM, {"random_rate": 0.1}, {"two_segments": False}, {}),
        (ContiguousPermutationLM, {"random_rate": 0.1}, {"two_segments": False}, {}),
        (FillInTheMiddle, {"spm_rate": 0.1}, {"fim_rate": 0.0}, {}),
        (BlankInfilling, {"min_document_share": 0.9}, {}, {"document_rate": 0.5}),
        (BlankInfilling, {"mean_length": 4.0}, {"document_rate": 0.5, "sentence_rate": 0.5}, {}),
        (BlankInfilling, {"noise_density": 0.3}, {"document_rate": 1.0}, {}),
        (KnowledgeMasking, {"vocabulary": "bytes"}, {}, {"word_list": "words.txt"}),
        (Contamination, {"window": 9}, {"action": "drop"}, {}),
        (Contamination, {"min_hits": 9}, {"action": "report"}, {"action": "drop"}),
        (PageReaderConfig, {"text_field": "body"}, {"kind": "wet"}, {"kind": "jsonl"}),
        (PageReaderConfig, {"html": Html(main_content=True)}, {"kind": "jsonl"}, {"kind": "warc"}),
        (Factors, {"decay_factor": 0.9}, {}, {"factors": "decay_every"}),
    ],
)
def test_an_option_that_a_combination_ignores_is_refused(owner, option, without, used):
    common = COMMON.get(owner, {})
    with pytest.raises(ValueError, match=r"has no effect|is for|needs|give the first"):
        owner(**(common | option | without))
    owner(**(common | option | used))


def test_settings_of_spans_are_for_tasks_with_answers_in_a_context(tmp_path):
    (tmp_path / "rows.tsv").write_text("a\tb\nx\tno\n")
    task = TextTask(**COMMON[TextTask], files={"validation": f"{tmp_path}/rows.tsv"}, labels=("no", "yes"))
    registry.register([replace(task, name="spans_have_no_effect")])
    evaluation = HeadEvaluation(mixture="spans_have_no_effect", inputs_length=8, n_best=3)
    model = BertConfig(vocab_size=512, model_dim=8, mlp_dim=8, num_heads=1, num_layers=1)
    mesh = MeshConfig(data=1).build(jax.local_devices()[:1])
    with pytest.raises(
        ValueError, match="n_best=3 has no effect: no task of 'spans_have_no_effect' has answers"
    ):
        evaluation.evaluator(registry.resolve(evaluation.mixture), model, mesh)


@pytest.mark.parametrize(
    ("setting", "methods"),
    [
        ({"num_shots": 2}, ("head",)),
        ({"num_beams": 4}, ("rank", "measure")),
        ({"normalization": "bytes"}, ("generate",)),
        ({"classes": ("a", "b")}, ("generate",)),
        ({"max_new_tokens": 9}, ("head", "measure")),
    ],
)
def test_a_setting_for_other_methods_than_those_of_the_tasks_is_refused(setting, methods):
    suite = SuiteEvaluation(**SUITE, **setting)
    with pytest.raises(ValueError, match=f"{next(iter(setting))}=.* has no effect: it is for method"):
        suite.check_methods(methods)
    suite.check_methods(("generate", "rank", "head"))


def test_every_field_of_a_configuration_is_read_somewhere():
    fields: dict[str, str] = {}
    reads: set[str] = set()
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "config_class" in map(ast.unparse, node.decorator_list):
                fields |= {f"{path.stem}.{node.name}.{name}": name for name in field_names(node)}
                # What a class only checks when it is built is not read.
                node.body = [each for each in node.body if getattr(each, "name", "") != "__post_init__"]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                reads.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                reads.add(node.value)  # names for getattr
            elif isinstance(node, ast.arg):
                reads.add(node.arg)  # fields that are passed on as keyword arguments
    assert len(fields) > 400
    assert sorted(where for where, name in fields.items() if name not in reads) == []


def field_names(owner: ast.ClassDef) -> list[str]:
    return [
        each.target.id
        for each in owner.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and "ClassVar" not in ast.unparse(each.annotation)
    ]


RISE: dict[str, Any] = {"peak": 0.5, "warmup_steps": 5, "total_steps": 20}
SCHEDULES: tuple[tuple[Any, dict[str, Any]], ...] = (
    (Constant, {}),
    (InverseSqrt, {"warmup_steps": 5}),
    (LinearWarmupLinearDecay, RISE),
    (LinearWarmupCosine, RISE),
    (WarmupStableDecay, RISE | {"decay_steps": 8}),
    (SlantedTriangular, {"total_steps": 20}),
    (Noam, {"warmup_steps": 5}),
    (Factors, {"factors": "constant"}),
    (Factors, {"factors": "linear_warmup", "warmup_steps": 5}),
    (Factors, {"factors": "linear_decay", "warmup_steps": 5, "decay_factor": 0.01}),
    (Factors, {"factors": "constant * rsqrt_decay", "warmup_steps": 5}),
    (Factors, {"factors": "rsqrt_normalized_decay", "warmup_steps": 5}),
    (Factors, {"factors": "decay_every", "steps_per_decay": 4}),
    (Factors, {"factors": "cosine_decay", "warmup_steps": 5, "steps_per_cycle": 30}),
)
# Values that show in the first steps.
SHOWING = {
    "minimum": 10.0,
    "decay_from": "start",
    "decay_shape": "linear",
    "cut_fraction": 0.3,
    "end": 0.2,
    "step_offset": 3,
    "steps_per_decay": 2,
    "steps_per_cycle": 20,
    "decay_factor": 0.9,
    "decay_steps": 4,
}


@pytest.mark.parametrize(("schedule", "values"), SCHEDULES)
def test_each_option_of_a_schedule_changes_rates_or_is_refused(schedule, values):
    steps = jnp.arange(40)
    rates = jax.vmap(schedule(**values))(steps)
    for field in dataclasses.fields(schedule):
        usual = values.get(field.name, field.default)
        if field.name == "factors":
            continue
        other = SHOWING[field.name] if field.name in SHOWING else usual * 2
        try:
            changed = jax.vmap(schedule(**values | {field.name: other}))(steps)
        except ValueError as error:
            assert "has no effect" in str(error)  # noqa: PT017
            continue
        assert not np.array_equal(changed, rates), f"{schedule.__name__}.{field.name} with {values}"


def test_a_temperature_next_to_the_rates_of_corpora_is_refused():
    settings: dict[str, Any] = {
        "mixture": "all",
        "vocabulary": "bytes",
        "train_files": "{corpus}/train.txt",
        "validation_files": "{corpus}/validation.txt",
        "objective": CausalLM(),
        "temperature": 2.0,
    }
    with pytest.raises(ValueError, match="temperature=2 has no effect: corpora has the rates"):
        corpus_tasks(corpora={"web": 0.8, "books": 0.2}, **settings)
    assert corpus_tasks(corpora=("web", "books"), **settings)[-1].name == "all"


def test_a_models_option_that_a_checkpoints_model_lacks_is_refused(tmp_path):
    config = T5Config(
        vocab_size=61,
        model_dim=16,
        mlp_dim=16,
        num_heads=2,
        head_dim=8,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    write_model_config(tmp_path, config)
    with pytest.raises(ValueError, match=r"classifier_dropout_rate=0\.1 has no effect: .* is a T5Config"):
        CheckpointModel(classifier_dropout_rate=0.1).resolve(tmp_path, None)
    assert CheckpointModel(dropout_rate=0.1).resolve(tmp_path, None) == replace(config, dropout_rate=0.1)
