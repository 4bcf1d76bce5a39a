"""What a model is made of, as a user asks for it."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from t5x_like.cli.main import main
from t5x_like.cli.model import mesh_sizes
from t5x_like.model.parameters import abstract
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.partitioning.mesh import MESH_AXES, MeshConfig
from t5x_like.partitioning.shard import tree_shardings
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.reports.weight_table import weight_table

RECIPE = "gin/recipes/quickstart/pretrain.gin"
TINY = T5Config(
    vocab_size=256,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=8,
    num_encoder_layers=2,
    num_decoder_layers=3,
)


def _counts(table: str) -> dict[str, int]:
    """The parameters in each row, by its whole path."""
    counts, folders = {}, []
    for line in table.splitlines():
        row = re.match(r"( *)(\S+) .*?([\d,]+) +[\d.]+ (?:B|[KMG]iB)", line)
        if row and "parameters" not in line:
            folders = [*folders[: len(row[1]) // 2], row[2]]
            counts["/".join(folders)] = int(row[3].replace(",", ""))
    return counts


def test_a_recipe_is_shown_with_shapes_axes_and_totals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "show", RECIPE]) == 0
    table = capsys.readouterr().out
    assert table.startswith("T5Config: 1,967,872 parameters, 7.5 MiB in float32\n")
    assert re.search(r"^  final_norm/scale +128 +norm +128 +512 B$", table, re.MULTILINE)
    counts = _counts(table)
    assert counts["decoder/final_norm/scale"] == 128
    leaves = [path for path in counts if not any(other.startswith(f"{path}/") for other in counts)]
    assert sum(counts[path] for path in leaves) == 1_967_872
    within = [path for path in leaves if path.startswith("decoder/")]
    assert counts["decoder"] == sum(counts[path] for path in within)
    assert "each device" not in table


def test_flags_change_the_recipes_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "show", "gin/models/t5_1_1/tiny.gin", "--set", "VOCAB_SIZE=4096"]) == 0
    assert "4096 × 128" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "opening"),
    [
        ("gin/models/llama/7b.gin", "LlamaConfig: 6,738,415,616 parameters"),
        ("gin/models/bert/base.gin", "BertConfig: 110,"),
        ("gin/recipes/t5_1_1/pretrain_base.gin", "T5Config: 247,"),
    ],
)
def test_a_file_without_a_vocabulary_is_shown_with_the_published_one(
    file: str, opening: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "show", file]) == 0
    assert capsys.readouterr().out.startswith(opening)


def test_a_mesh_larger_than_this_machine_cuts_every_weight_as_training_would(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["model", "show", RECIPE, "--mesh", "data=64, fsdp=4,model=2"]) == 0
    table = capsys.readouterr().out
    assert "data 64 × fsdp 4 × model 2 = 512 devices: 966.5 KiB on each" in table
    # 4,224 rows of 128 numbers over 8 devices; a norm's scale is held by all
    assert re.search(
        r"vocab, embed +model\+fsdp, - +528 × 128 +540,672 +2\.1 MiB +264\.0 KiB$", table, re.MULTILINE
    )
    assert re.search(r"final_norm/scale +128 +norm +whole +128 +128 +512 B +512 B$", table, re.MULTILINE)


def test_a_device_holds_as_many_bytes_as_the_table_says() -> None:
    mesh = MeshConfig(data=2, fsdp=2, model=2).build()
    _, shapes, axes = abstract(TINY)
    arrays = jax.tree.map(
        lambda leaf, sharding: jnp.zeros(leaf.shape, leaf.dtype, device=sharding),
        shapes,
        tree_shardings(axes, shapes, mesh),
    )
    held = sum(array.addressable_shards[0].data.nbytes for array in jax.tree.leaves(arrays))
    assert f"= 8 devices: {held / 1024:.1f} KiB on each" in weight_table(TINY, mesh)


def test_what_a_mesh_cannot_cut_is_reported() -> None:
    mesh = jax.sharding.AbstractMesh((1, 1, 1, 1, 16), MESH_AXES)
    assert "note: mlp of 24 can't be cut into model=16 equal parts" in weight_table(TINY, mesh)


def test_a_run_directory_tells_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model_config(tmp_path, TINY)
    assert main(["model", "show", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == weight_table(TINY)


def test_a_hugging_face_directory_tells_its_model_without_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"vocab_size": 256, "d_model": 16, "d_ff": 24, "d_kv": 8, "num_heads": 2, "num_layers": 2}
    traits = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "is_encoder_decoder": True}
    named = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "num_decoder_layers": 3}
    (tmp_path / "config.json").write_text(json.dumps(fields | traits | named))
    assert main(["model", "show", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == weight_table(TINY)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--mesh=fdsp=2"], ["there is no mesh axis 'fdsp'", "did you mean 'fsdp'?"]),
        (
            ["--mesh=rows=2"],
            ["there is no mesh axis 'rows'", "choose from: context, data, expert, fsdp, model"],
        ),
        (["--mesh=data=0"], ["data is 0", "at least 1"]),
        (["--mesh=data=-1"], ["data is -1", "at least 1"]),
        (["--mesh=data"], ["data is not given"]),
        (["--mesh=data=2,data=3"], ["an axis is given twice"]),
        ([], ["say which model: a gin file, a Hugging Face directory or a run directory"]),
        (["nowhere.gin"], ["there is no gin file 'nowhere.gin'"]),
        (["runs/nowhere"], ["there is no directory 'runs/nowhere'"]),
        (["docs"], ["docs holds no model", "config.json"]),
        (["docs", "--gin.VOCAB_SIZE=3"], ["docs is a directory"]),
        (["gin/models/t5_1_1.gin"], ["%VOCAB_SIZE is not defined"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_users_mistake_ends_with_2(
    arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "show", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    for part in parts:
        assert part in captured.err


def test_a_mesh_is_given_by_its_axes():
    assert tuple(mesh_sizes("")) == MESH_AXES
    assert mesh_sizes("fsdp=2, expert=4") == {**dict.fromkeys(MESH_AXES, 1), "fsdp": 2, "expert": 4}
