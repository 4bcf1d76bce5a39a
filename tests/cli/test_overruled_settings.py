"""Flags overrule the settings of a run's own evaluation by name, and nothing else of them."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from t5x_like.cli import evaluate, predict
from t5x_like.cli.main import main, split_overrides
from t5x_like.evaluation.overruled_settings import overruled
from t5x_like.evaluation.span_answers import SpanSearch
from t5x_like.inference.generator import GenerationConfig
from t5x_like.projects.project import TableChoices
from tests.cli.test_new_kinds_of_tables import answers, translations, write
from tests.cli.untrained_runs import SMALL_MODERNBERT, SMALL_T5, project_with_run

SEARCH = {"num_beams": 3, "length_penalty_alpha": 0.0}
SPANS = {"max_answer_length": 7, "n_best": 5}
SCOPED = [
    "--gin.beam/GenerationConfig.num_beams=4",
    "--gin.{owner}.generation=@beam/generator.GenerationConfig()",
]


def run_of(folder: Path, row: Callable[[int], dict[str, Any]], settings: dict[str, Any]) -> str:
    choices = TableChoices(data=write(folder, row, 12))
    return project_with_run(folder / f"table_with_{row.__name__}", choices, settings).run


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run whose own evaluation searches with three beams and no penalty."""
    search = {f"GenerationConfig.{name}": value for name, value in SEARCH.items()}
    settings = {"METRICS": ("sequence_accuracy",), **search, **SMALL_T5}
    return run_of(tmp_path_factory.mktemp("writing"), translations, settings)


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run whose own evaluation searches short answers."""
    search = {f"HeadEvaluation.{name}": value for name, value in SPANS.items()}
    return run_of(tmp_path_factory.mktemp("answering"), answers, {**search, **SMALL_MODERNBERT})


def parsed(verb: ModuleType, run: str, *flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    overrides, plain = split_overrides([f"--checkpoint={run}", *flags])
    arguments = parser.parse_args(plain)
    arguments.overrides = overrides
    return arguments


def evaluation_of(run: str, *flags: str) -> Any:
    (evaluation,) = evaluate.own_evaluation(parsed(evaluate, run, *flags)).evaluations
    return evaluation


def generations(run: str, *flags: str) -> list[GenerationConfig]:
    """Return the decoding of both commands."""
    predicted, evaluated = (
        [flag.format(owner=owner) for flag in flags] for owner in ("RunPrediction", "TaskEvaluation")
    )
    prediction = predict.run_prediction(parsed(predict, run, *predicted))
    return [evaluation_of(run, *evaluated).generation, prediction.generation]


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        ([], {}),
        (["--set=GenerationConfig.num_beams=8"], {"num_beams": 8}),
        (["--set=GenerationConfig.length_penalty_alpha=0.6"], {"length_penalty_alpha": 0.6}),
        (["--set=GenerationConfig.length_penalty_alpha=0.3"], {"length_penalty_alpha": 0.3}),
        (["--set=GenerationConfig.num_beams=1"], {"num_beams": 1, "length_penalty_alpha": 0.6}),
        (["--set=GenerationConfig.max_new_tokens=5"], {"max_new_tokens": 5}),
        (["--set=TARGETS_LENGTH=5"], {"max_new_tokens": 5}),
        (SCOPED, {"num_beams": 4}),
        (
            ["--set=GenerationConfig.temperature=0.5", "--set=GenerationConfig.top_k=9"],
            {"temperature": 0.5, "top_k": 9, "num_beams": 1, "length_penalty_alpha": 0.6},
        ),
        (
            ["--gin.{owner}.generation=@generator.GenerationConfig()"],
            {"num_beams": 1, "length_penalty_alpha": 0.6},
        ),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_decoding_that_flags_set_is_replaced_by_name(
    writing: str, flags: list[str], changes: dict[str, Any]
) -> None:
    (own,) = evaluate.read_experiment_field(writing, "evaluations")
    assert {name: getattr(own.generation, name) for name in SEARCH} == SEARCH
    expected = replace(own.generation, **changes)
    assert generations(writing, *flags) == [expected, expected]


def test_macros_of_lengths_are_obeyed(writing: str, answering: str) -> None:
    (own,) = evaluate.read_experiment_field(writing, "evaluations")
    both = evaluation_of(writing, "--set=INPUTS_LENGTH=9", "--set=TARGETS_LENGTH=5")
    assert (both.inputs_length, both.targets_length, both.generation.max_new_tokens) == (9, 5, 5)
    one = evaluation_of(writing, "--gin.N=9", "--gin.INPUTS_LENGTH=%N")
    assert (one.inputs_length, one.targets_length) == (9, own.targets_length)
    assert one.generation == own.generation
    assert evaluation_of(answering, "--set=INPUTS_LENGTH=9").inputs_length == 9


def test_labels_that_flags_have_ranked_need_no_search(writing: str) -> None:
    ranking = evaluation_of(writing, "--set=TaskEvaluation.method=rank")
    assert (ranking.method, ranking.generation.num_beams) == ("rank", 1)


def test_a_search_of_spans_is_replaced_by_name(answering: str) -> None:
    flags = ["--set=SpanSearch.n_best=20", "--gin.RunPrediction.spans=@SpanSearch()"]
    by_template = predict.run_prediction(parsed(predict, answering, flags[0])).spans
    assert by_template == replace(SpanSearch(**SPANS), n_best=20)
    own = SpanSearch(**SPANS)
    assert predict.run_prediction(parsed(predict, answering)).spans == own
    assert predict.run_prediction(parsed(predict, answering, *flags)).spans == replace(own, n_best=20)
    assert predict.run_prediction(parsed(predict, answering, flags[1])).spans == SpanSearch()
    flag = "--set=HeadEvaluation.n_best=20"
    assert evaluation_of(answering, flag).spans == replace(own, n_best=20)


def test_settings_that_nothing_uses_are_refused_by_name(
    writing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb, *flags in (("evaluate",), ("predict", "--input=a")):
        for name in ("beam/GenerationConfig.num_beams=4", "TARGET_LENGTH=5"):
            assert main([verb, f"--checkpoint={writing}", *flags, f"--set={name}"]) == 2
            assert name.partition("=")[0].rpartition(".")[2] in capsys.readouterr().err


def test_a_search_of_spans_has_no_effect_where_there_are_none(
    writing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = f"--checkpoint={writing}", "--input=a", "--set=SpanSearch.n_best=5"
    assert main(["predict", *flags]) == 2
    assert "spans has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("own", "changes", "expected"),
    [
        ({"temperature": 0.5, "top_p": 0.9}, {"num_beams": 2}, {"num_beams": 2}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.0}, {}),
        ({"temperature": 0.5, "top_p": 0.9}, {"seed": 3}, {"temperature": 0.5, "top_p": 0.9, "seed": 3}),
        (SEARCH, {"temperature": 0.5}, {"temperature": 0.5}),
        (SEARCH, {"temperature": 0.0}, SEARCH),
    ],
)
def test_a_search_that_flags_choose_drops_settings_of_another(
    own: dict[str, Any], changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    settings = overruled(GenerationConfig(**own), {*changes}, GenerationConfig(**changes))
    assert settings == GenerationConfig(**expected)


def test_settings_without_effect_in_the_search_stay_errors() -> None:
    with pytest.raises(ValueError, match=r"length_penalty_alpha=0.3 has no effect"):
        overruled(
            GenerationConfig(),
            {"length_penalty_alpha"},
            GenerationConfig(num_beams=2, length_penalty_alpha=0.3),
        )
