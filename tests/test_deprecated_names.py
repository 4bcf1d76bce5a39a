"""Earlier names still work, and a warning has the present one."""

import logging

import numpy as np
import pytest

import t5x_like
from docs.site.gin_macros import read_macros
from docs.site.public_surface import surface
from t5x_like.cli.main import parser_of
from t5x_like.deprecated_names import ARGUMENTS, FLAGS, MACROS, present_flags
from t5x_like.gin_config.configuration import load
from t5x_like.training.experiment import Experiment
from tests.references import FIXTURES, ROOT

RECIPE = ROOT / "gin/recipes/quickstart/pretrain.gin"


def _load(*overrides: str) -> Experiment:
    macros = ["run_config.RunConfig.model_dir = 'run'", *overrides]
    return load([str(RECIPE)], macros, roots=[Experiment]).value


@pytest.mark.parametrize(("earlier", "successor"), [("TOTAL_STEPS", "TRAIN_STEPS")])
def test_a_macro_is_read_by_its_earlier_name(caplog, earlier, successor):
    with caplog.at_level(logging.WARNING):
        experiment = _load(f"{earlier} = 7")
    assert experiment == _load(f"{successor} = 7")
    assert experiment.run.total_steps == 7
    assert caplog.messages == [
        f"macro {earlier} (command line) is now {successor}; the earlier name works until version 2.0.0"
    ]


def test_a_macro_of_the_users_own_keeps_its_name(caplog):
    experiment = _load("TOTAL_STEPS = 7", "TRAIN_STEPS = %TOTAL_STEPS")
    assert experiment.run.total_steps == 7
    assert caplog.messages == []


@pytest.mark.parametrize("earlier", FLAGS)
def test_a_flag_is_read_by_its_earlier_name(caplog, earlier):
    verb, _, flag = earlier.rpartition(" ")
    assert present_flags(verb, [f"{flag}=bytes", flag, "bytes"]) == [
        f"{FLAGS[earlier]}=bytes",
        FLAGS[earlier],
        "bytes",
    ]
    assert FLAGS[earlier] in parser_of(verb).flags()
    assert flag not in parser_of(verb).flags()
    assert len(caplog.messages) == 2


def test_an_argument_is_read_by_its_earlier_name():
    model = t5x_like.from_pretrained(FIXTURES / "models/bert_seqcls")
    ids = np.array([[1, 2, 3]])
    with pytest.warns(FutureWarning, match=r"Pretrained\.embed\(takes=…\) is now pooling=…"):
        vectors = model.embed(ids, takes="first")
    np.testing.assert_array_equal(vectors, model.embed(ids, pooling="first"))
    with pytest.raises(TypeError, match=r"takes= is the earlier name of pooling="):
        model.embed(ids, takes="first", pooling="mean")


def test_successors_are_public():
    present = surface()
    assert {*MACROS.values()} <= {*read_macros(sorted((ROOT / "gin").rglob("*.gin")))}
    assert {f"{name.rpartition('.')[0]}.{successor}" for name, successor in ARGUMENTS.items()} <= {
        *present["python"]
    }


def test_the_page_of_changes_lists_all():
    page = (ROOT / "docs/whats_new.md").read_text(encoding="utf-8")
    flags = {name.rpartition(" ")[2] for name in FLAGS}
    arguments = {f"{name.rpartition('.')[0]}({name.rpartition('.')[2]}=…)" for name in ARGUMENTS}
    assert [name for name in {*MACROS, *flags, *arguments} if f"`{name}`" not in page] == []
