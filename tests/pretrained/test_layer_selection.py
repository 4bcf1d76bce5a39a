"""Students that begin with some layers of their teacher: the layers chosen, and all else kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.model.lazy_array import LazyArray
from t5x_like.model.zoo.gemma2 import Gemma2Config
from t5x_like.pretrained.layer_selection import every_nth, num_layers_of, select_layers
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from tests.model.zoo.tiny_models import TINY
from tests.training.test_every_architecture import batch_for


def weights(config: Any, seed: int = 0) -> parameters.Parameters:
    return jax.jit(lambda key: parameters.split(config.build(key))[1])(jax.random.key(seed))


def chosen(config: Any, layers: Any) -> tuple[Any, dict[str, np.ndarray], dict[str, np.ndarray]]:
    params = weights(config)
    student, selected = select_layers(config, params, layers)
    as_numpy = (
        {path: np.asarray(leaf) for path, leaf in parameters.flatten(tree).items()}
        for tree in (params, selected)
    )
    return student, *as_numpy


def test_every_second_layer_of_both_stacks_and_everything_else_unchanged():
    config = replace(TINY["mt5"], num_encoder_layers=4, num_decoder_layers=3)
    assert num_layers_of(config) == {"encoder": 4, "decoder": 3}
    assert every_nth(config, 2) == {"encoder": (0, 2), "decoder": (0, 2)}
    student, before, after = chosen(config, every_nth(config, 2))
    assert (student.num_encoder_layers, student.num_decoder_layers) == (2, 2)
    assert before.keys() == after.keys()
    for path, leaf in before.items():
        wanted = leaf[[0, 2]] if "/layers/" in path else leaf
        np.testing.assert_array_equal(after[path], wanted, err_msg=path)
    only, _, after = chosen(config, {"decoder": (2,)})
    assert (only.num_encoder_layers, only.num_decoder_layers) == (4, 1)
    path = "decoder/layers/0/feed_forward/up/kernel"
    np.testing.assert_array_equal(after[path], before[path][[2]])
    path = "encoder/layers/0/feed_forward/up/kernel"
    np.testing.assert_array_equal(after[path], before[path])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gemma2", marks=pytest.mark.slow),
        pytest.param("t5_shared", marks=pytest.mark.slow),
        pytest.param("transfo_xl", marks=pytest.mark.slow),
        pytest.param("switch", marks=pytest.mark.slow),
        "albert",
    ],
)
def test_a_student_of_all_layers_predicts_what_its_teacher_does(name):
    config = TINY[name]
    params = weights(config)
    sizes = num_layers_of(config)
    student, selected = select_layers(config, params, {stack: range(size) for stack, size in sizes.items()})
    assert student == config
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), b), selected, params)


def test_layers_that_repeat_a_pattern_are_found_in_their_slots():
    config = Gemma2Config(
        vocab_size=61,
        model_dim=32,
        mlp_dim=48,
        num_heads=4,
        num_layers=6,
        num_kv_heads=2,
        head_dim=8,
        sliding_window=4,
    )
    student, before, after = chosen(config, {"decoder": (2, 5)})
    assert student.num_layers == 2
    for path in before:
        if "/layers/0/" in path:  # local layers 0, 2, 4
            np.testing.assert_array_equal(after[path], before[path][[1]])
        if "/layers/1/" in path:  # global layers 1, 3, 5
            np.testing.assert_array_equal(after[path], before[path][[2]])


@pytest.mark.slow
def test_a_teacher_whose_other_layers_add_nothing_predicts_what_its_student_does():
    config = replace(TINY["llama"], num_layers=4, dropout_rate=0.0)
    flat = parameters.flatten(weights(config))
    for path in ("self_attention/out/kernel", "feed_forward/down/kernel"):
        path = f"decoder/layers/0/{path}"
        flat[path] = flat[path].at[jnp.array([0, 2])].set(0.0)
    teacher = parameters.unflatten(flat)
    student, selected = select_layers(config, teacher, {"decoder": (1, 3)})
    batch = jax.tree.map(jnp.asarray, batch_for(config, 0))

    def logits(config: Any, params: Any) -> jax.Array:
        params = jax.tree.map(jnp.asarray, params, is_leaf=lambda leaf: isinstance(leaf, LazyArray))
        return predict(parameters.merge(parameters.abstract(config)[0], params), batch).logits

    np.testing.assert_allclose(logits(student, selected), logits(config, teacher), atol=1e-6)
    _, others = select_layers(config, teacher, {"decoder": (0, 3)})
    assert not np.allclose(logits(student, others), logits(config, teacher), atol=1e-3)


@pytest.mark.parametrize(
    ("name", "layers", "message"),
    [
        (
            "bert",
            {"encoder": (0, 2)},
            "layer 2 of the encoder is chosen, which has 2 layers; give numbers from 0 to 1",
        ),
        ("bert", {"encoder": ()}, "no layer of the encoder is chosen; give at least one of 0 to 1"),
        ("bert", {"decoder": (0,)}, "a BertConfig has no decoder to choose layers of; it has encoder"),
        (
            "gemma2",
            {"decoder": (1,)},
            "layer 1 of the decoder would be layer 0 of the student, .* every 2 layers",
        ),
        ("switch", {"encoder": (1,)}, "layer 1 of the encoder would be layer 0 of the student, .*experts"),
    ],
)
def test_layers_that_are_not_there_or_of_another_kind_are_refused(name, layers, message):
    with pytest.raises(ValueError, match=message):
        select_layers(TINY[name], parameters.abstract(TINY[name])[1], layers)


@pytest.mark.slow
def test_groups_that_share_weights_stay_whole():
    config = replace(TINY["albert"], num_layers=4, num_hidden_groups=2)
    student, before, after = chosen(config, {"encoder": (0, 2)})
    assert student.num_layers == 2
    for path in before:
        np.testing.assert_array_equal(after[path], before[path])
    with pytest.raises(ValueError, match="share weights in groups"):
        select_layers(config, weights(config), {"encoder": (0, 1)})


@pytest.mark.parametrize("flags", [["--every", "2"], pytest.param(["--layers", "0"], marks=pytest.mark.slow)])
def test_the_command_makes_a_run_of_a_published_model_and_of_a_run(
    golden: Path, tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
):
    source, run = golden / "models" / "bert_seqcls", tmp_path / "run"
    assert main(["convert", "--from", str(source), "--to", str(run)]) == 0
    for index, origin in enumerate((source, run)):
        student = tmp_path / f"student_{index}"
        assert main(["convert", "--from", str(origin), "--to", str(student), *flags]) == 0
        assert "layers kept: encoder 0" in capsys.readouterr().out
        opened, teacher = open_checkpoint(student), open_checkpoint(source)
        assert opened.config == replace(teacher.config, num_layers=1)
        teacher_weights, student_weights = (parameters.flatten(each.params) for each in (teacher, opened))
        for path, leaf in student_weights.items():
            np.testing.assert_array_equal(
                leaf, teacher_weights[path][:1] if "/layers/" in path else teacher_weights[path]
            )
        assert opened.class_names == teacher.class_names
    assert t5x_like.from_pretrained(student).config.num_layers == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--every", "2", "--layers", "0"], "--every and --layers choose layers twice"),
        (["--every", "0"], "argument --every: 0 is too small; give a whole number of at least 1"),
        (["--layers", "0", "--export", "hf"], "--layers makes a run; --export hf writes a whole run"),
        (["--layers", "7"], "layer 7 of the encoder is chosen, which has 2 layers"),
        (["--decoder_layers", "0"], "has no decoder to choose layers of"),
    ],
)
def test_flags_that_choose_no_student_are_refused(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
):
    source = golden / "models" / "bert_seqcls"
    assert main(["convert", "--from", str(source), "--to", str(tmp_path / "new"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
