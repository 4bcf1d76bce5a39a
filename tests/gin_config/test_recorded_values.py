"""``--set Class.field=value`` on a configuration that is built already: a saved run's."""

from dataclasses import replace

import pytest
from bakery import Bakery, Loaf, Oven

from t5x_like.gin_config.recorded_values import with_values
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.text.batches.loader_config import LoaderConfig
from tests.training.experiments import experiment_of

BUILT = Bakery(
    loaves=(Loaf(name="white"), Loaf(name="rye")),
    street="Mill Lane",
    days=6,
    prices={"rye": 3.0},
    vessel=Oven(),
)


def changed(*flags: str) -> Bakery:
    settings = [Setting(*flag.split("=", 1), flag=f"--set {flag}") for flag in flags]
    return with_values(BUILT, settings, where="runs/a")


def test_a_field_changes_wherever_its_class_is() -> None:
    assert changed("Loaf.grams=300").loaves == (Loaf(name="white", grams=300), Loaf(name="rye", grams=300))
    assert changed("bakery.Oven.degrees=90", "Bakery.days=5") == replace(
        BUILT, vessel=Oven(degrees=90.0), days=5
    )
    assert BUILT.days == 6


def test_the_last_value_wins_and_text_needs_no_quotes() -> None:
    assert changed("Bakery.street=Low Street", "Bakery.street=512").street == "512"
    assert changed("Loaf.seeds=poppy,sesame").loaves[0].seeds == ("poppy", "sesame")


def test_gins_own_syntax_is_read_too() -> None:
    assert with_values(BUILT, ["Bakery.street='High Street'"], where="runs/a").street == "High Street"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("Loaf.days=3", "bakery.Loaf has no field 'days'\n    --set Loaf.days=3\n  this run has Bakery.days"),
        ("DAYS=3", "the record of runs/a has no 'DAYS'"),
        ("DAYS=3", "those of a gin file can be set: --gin_file=runs/a/config.gin"),
        ("Loff.grams=3", "did you mean 'Loaf.grams'?"),
        ("Pan.width=3", "the record of runs/a has no 'Pan.width'"),
        (
            "Loaf.gramms=3",
            "bakery.Loaf has no field 'gramms'\n    --set Loaf.gramms=3\n  did you mean 'grams'?",
        ),
        ("Loaf.grams=0", "command line: bakery.Loaf: grams is 0; a loaf weighs at least 1"),
        ("Bakery.days=many", "bakery.Bakery.days needs an int, got 'many' (text)"),
        ("Bakery.vessel=@bakery.Pan()", "a saved run takes plain values only"),
        ("scope/Loaf.grams=3", "has no 'Loaf.grams'"),
    ],
)
def test_what_it_cannot_set_is_refused(flag: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        changed(flag)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("start", "name", "hint"),
    [
        ({"start_from": "runs/b"}, "start_from", "this run has PretrainedWeights.start_from"),
        ({"start_from": "runs/b"}, "noisy_tune", "this run has PretrainedWeights.noisy_tune"),
        ({"start_from": "runs/b"}, "word_vectors", "no part of this run has one"),
        ({"word_vectors": "a.txt"}, "word_vectors", "this run has PretrainedInputs.word_vectors"),
        ({"word_vectors": "a.txt"}, "features", "this run has PretrainedInputs.features"),
        ({}, "start_from", "no part of this run has one"),
        ({}, "loss", "this run has Supervised.loss"),
        ({}, "seed", "this run has RunConfig.seed"),
    ],
)
def test_fields_that_experiments_had_are_named_where_the_record_has_them(start, name, hint):
    experiment = experiment_of(
        model=CheckpointModel(),
        train=LoaderConfig(mixture="a", batch_size=2, inputs_length=8, targets_length=8),
        model_dir="runs/a",
        total_steps=1,
        **start,
    )
    setting = Setting(f"Experiment.{name}", "3", flag=f"--set Experiment.{name}=3")
    with pytest.raises(UserError) as caught:
        with_values(experiment, [setting], where="runs/a")
    assert str(caught.value).endswith(f"\n  {hint}")
