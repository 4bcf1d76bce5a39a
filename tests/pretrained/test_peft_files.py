"""Adapters of PEFT: outputs as recorded, files as PEFT writes them, and messages on those that can't be read."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import t5x_like
from benchmarks.references.adapters import AdapterFolder
from t5x_like.cli.main import main
from t5x_like.model import parameters
from t5x_like.model.adapters import IA3, BottleneckAdapter, LoRA, PrefixTuning
from t5x_like.model.adapters.adapter_weights import adapter_paths
from t5x_like.pretrained.hugging_face import configuration_of
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.peft_files import read_peft, write_peft
from t5x_like.pretrained.peft_weights import PublishedModel, fuse_low_rank
from tests.references import FIXTURES
from tests.slow_cases import slow_except

ADAPTERS, MODELS = FIXTURES / "peft", FIXTURES / "models"
BASES = {"bert": "bert_seqcls", "gpt2": "gpt2", "llama": "llama", "t5": "t5_v11"}
REFUSED = ("bert_prompt", "t5_prefix")
CASES = sorted(path.name for path in ADAPTERS.iterdir() if path.is_dir() and path.name not in REFUSED)
WITH_OTHER_FACTORS = "gpt2_lora_patterns"  # the same product of factors, with one alpha for all modules


def base_of(case: str) -> Path:
    """The folder of the model that a case's adapter is for."""
    return MODELS / BASES[case.partition("_")[0]]


def error_of(case: str, pretrained: Any) -> float:
    """Return the largest difference from PEFT's logits at real tokens, as a part of the largest logit."""
    folder = AdapterFolder(ADAPTERS / case)
    return float(np.abs(folder.logits(pretrained) - folder.recorded).max() / np.abs(folder.recorded).max())


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """The models without adapters, opened once."""
    return {name: t5x_like.from_pretrained(MODELS / folder) for name, folder in BASES.items()}


# One for each kind of adapter.
EACH_KIND = ("bert_lora", "gpt2_dora", "gpt2_prompt", "llama_lora_regex", "llama_prefix", "t5_ia3", "t5_lora")


@pytest.mark.parametrize("case", slow_except(CASES, EACH_KIND))
def test_an_adapter_of_peft_computes_what_it_does_there(models: dict[str, Any], case: str) -> None:
    pretrained = models[case.partition("_")[0]]
    pretrained.load_adapter("theirs", ADAPTERS / case)
    assert error_of(case, pretrained) < 1e-5
    pretrained.set_adapter(None)
    assert error_of(case, pretrained) > 1e-2


@pytest.mark.parametrize("case", CASES)
def test_an_adapter_is_written_as_peft_writes_it(tmp_path: Path, case: str) -> None:
    adapter = read_peft(ADAPTERS / case, configuration_of(base_of(case)))
    trained = adapter.params.keys() - adapter_paths(adapter.config)
    write_peft(adapter.config, parameters.unflatten({**adapter.params}), tmp_path, trained=trained)
    reference, actual = (
        load_file(folder / "adapter_model.safetensors") for folder in (ADAPTERS / case, tmp_path)
    )
    reference = {name: value for name, value in reference.items() if "original_module" not in name}
    reference = {name: value for name, value in reference.items() if "modules_to_save" not in name}
    assert actual.keys() == reference.keys()
    for name, value in actual.items():
        if case == WITH_OTHER_FACTORS and "lora_B" in name:
            continue
        # PEFT doesn't use the second half of a prompt of T5. Keys of rotary attention are turned there and back.
        np.testing.assert_allclose(value, reference[name][: len(value)], atol=1e-6, rtol=0, err_msg=name)
    own, their = (
        json.loads((folder / "adapter_config.json").read_text()) for folder in (tmp_path, ADAPTERS / case)
    )
    assert [own[name] for name in ("peft_type", "task_type")] == [
        their[name] for name in ("peft_type", "task_type")
    ]


def test_both_commands_of_convert_keep_an_adapter(tmp_path: Path) -> None:
    case, run, back = "bert_lora", tmp_path / "run", tmp_path / "back"
    source, base = str(ADAPTERS / case), str(base_of(case))
    assert main(["convert", "--from", source, "--base", base, "--to", str(run)]) == 0
    assert error_of(case, t5x_like.from_pretrained(run)) < 1e-5
    held = parameters.flatten(open_checkpoint(run).params)
    saved = json.loads((run / "frozen.json").read_text())["checksums"]
    assert {path for path in held if path not in saved} == {
        *(
            f"encoder/layers/0/self_attention/{name}/lora/{part}"
            for name in ("query", "value")
            for part in "ab"
        ),
        *(f"heads/scores/sequence_classification/projection/{part}" for part in ("kernel", "bias")),
    }
    assert main(["convert", "--from", str(run), "--to", str(back), "--export", "peft"]) == 0
    reference, actual = (
        load_file(folder / "adapter_model.safetensors") for folder in (ADAPTERS / case, back)
    )
    assert actual.keys() == reference.keys()
    assert all(np.array_equal(actual[name], reference[name]) for name in actual)
    fields = json.loads((back / "adapter_config.json").read_text())
    assert sorted(fields["target_modules"]) == ["query", "value"]
    assert (fields["modules_to_save"], fields["base_model_name_or_path"]) == (["classifier"], base)


@pytest.mark.parametrize("case", ["bert_lora", "gpt2_ia3"])
def test_a_loaded_adapter_is_saved_with_its_classifier_and_no_more(
    models: dict[str, Any], tmp_path: Path, case: str
) -> None:
    pretrained = models[case.partition("_")[0]]
    pretrained.load_adapter("theirs", ADAPTERS / case)
    pretrained.save_adapter(tmp_path / "again")
    pretrained.load_adapter("again", tmp_path / "again")
    assert error_of(case, pretrained) < 1e-5
    reference, actual = (
        load_file(folder / "adapter_model.safetensors") for folder in (ADAPTERS / case, tmp_path / "again")
    )
    assert actual.keys() == reference.keys()
    fields = json.loads((tmp_path / "again/adapter_config.json").read_text())
    assert fields["base_model_name_or_path"] == str(base_of(case))
    pretrained.set_adapter(None)
    with pytest.raises(ValueError, match=r"has no adapter over frozen weights.*export_hugging_face"):
        pretrained.save_adapter(tmp_path / "none")


def test_a_runs_adapter_is_saved_as_the_command_writes_it(tmp_path: Path) -> None:
    run, of_command = tmp_path / "run", tmp_path / "of_command"
    flags = ["--from", str(ADAPTERS / "bert_lora"), "--base", str(base_of("bert_lora"))]
    assert main(["convert", *flags, "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(of_command), "--export", "peft"]) == 0
    t5x_like.from_pretrained(run).save_adapter(tmp_path / "opened")
    over_base = t5x_like.from_pretrained(base_of("bert_lora"))
    over_base.load_adapter("run", run)
    over_base.save_adapter(tmp_path / "loaded")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        written = [(tmp_path / each / name).read_bytes() for each in ("of_command", "opened", "loaded")]
        assert written[0] == written[1] == written[2]


def test_a_classifier_comes_with_its_adapter_over_a_model_without_one() -> None:
    adapter = read_peft(ADAPTERS / "bert_lora", configuration_of(MODELS / "bert_mlm"))
    assert (adapter.config.task, adapter.config.num_labels) == ("sequence_classification", 5)
    assert "heads/scores/sequence_classification/projection/kernel" in adapter.params


def test_a_pooler_that_neither_adapter_nor_base_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PEFT's own training drew one and did not save it."""
    source, base = str(ADAPTERS / "bert_lora"), str(MODELS / "bert_mlm")
    assert main(["convert", "--from", source, "--base", base, "--to", str(tmp_path / "run")]) == 2
    assert "neither it nor" in (message := capsys.readouterr().err)
    assert "heads/pooler/transform/dense/kernel; save the adapter with its whole head" in message
    assert not (tmp_path / "run").exists()
    pretrained = t5x_like.from_pretrained(base)
    with pytest.raises(
        ValueError, match="heads/pooler/transform/dense/kernel; save the adapter with its whole"
    ):
        pretrained.load_adapter("theirs", source)


@pytest.mark.parametrize(
    "case", ["bert_lora", "bert_prefix", "bert_lora_bias", "gpt2_dora", "llama_ia3", "t5_lora"]
)
def test_each_tensor_that_an_adapter_lacks_is_named(case: str, tmp_path: Path) -> None:
    shutil.copytree(ADAPTERS / case, tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(path)
    base = configuration_of(base_of(case))
    own = [name for name in tensors if "original_module" not in name and "modules_to_save" not in name]
    for name in own:
        path.unlink()
        save_file({other: tensors[other] for other in tensors if other != name}, path)
        with pytest.raises(
            ValueError, match=r"lacks tensors of |lacks prompt_embeddings|norms of DoRA .* without"
        ):
            read_peft(tmp_path / "adapter", base)


def _linear_cases() -> list[str]:
    return sorted(
        path.parent.name
        for path in MODELS.glob("*/config.json")
        if not path.parent.name.startswith("glm_orig")
    )


@pytest.mark.parametrize("name", _linear_cases())
def test_low_rank_changes_fit_every_architecture(name: str) -> None:
    model = PublishedModel(configuration_of(MODELS / name))
    random = np.random.default_rng(0)
    assert model.modules
    for module, linear in model.modules.items():
        num_inputs, num_outputs = model.sizes(module) or ()
        a, b = (random.normal(size=size).astype(np.float32) for size in ((2, num_inputs), (num_outputs, 2)))
        delta = b @ a if not model.has_conv1d([module]) else (b @ a).T
        wanted = linear.row.transform.read(delta)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        parts = [(a.T, part) for part in model.split(module, b)]
        for change, (lora_a, lora_b) in zip(wanted, parts, strict=True):
            np.testing.assert_allclose(lora_a @ lora_b, change, rtol=1e-5, atol=1e-5)
        widths = model.widths(linear.row)
        again_a, again_b = fuse_low_rank(linear.row, parts, widths)
        np.testing.assert_array_equal(again_a, a)
        np.testing.assert_array_equal(again_b, b)
        # Where parts have an A of their own, the module's rank is the sum of theirs.
        apart = [(random.normal(size=(num_inputs, 2)), part) for _, part in parts]
        joined_a, joined_b = fuse_low_rank(
            linear.row, [*apart[:-1], None] if len(apart) > 1 else apart, widths
        )
        assert len(joined_a) == 2 * max(1, len(apart) - 1)
        for (own_a, own_b), part in zip(apart[:-1], model.split(module, joined_b), strict=False):
            np.testing.assert_allclose(joined_a.T @ part, own_a @ own_b, rtol=1e-5, atol=1e-5)


def test_queries_alone_are_a_part_of_gpt2s_fused_module(tmp_path: Path) -> None:
    lora = LoRA(rank=2, alpha=4.0, targets=("*/query", "*/value"))
    config = replace(configuration_of(MODELS / "gpt2"), adapter=lora)
    shapes = parameters.flatten(parameters.abstract(config)[1])
    random = np.random.default_rng(1)
    own = {path: random.normal(size=shapes[path].shape).astype(np.float32) for path in adapter_paths(config)}
    write_peft(config, parameters.unflatten({**own}), tmp_path)
    fields = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (fields["r"], fields["lora_alpha"], fields["target_modules"]) == (4, 8.0, ["c_attn"])
    again = read_peft(tmp_path, configuration_of(MODELS / "gpt2"))
    for name in ("query", "key", "value"):
        path = f"decoder/layers/0/self_attention/{name}/lora"
        result = again.config.adapter.scale * again.params[f"{path}/a"] @ again.params[f"{path}/b"]
        wanted = lora.scale * own[f"{path}/a"] @ own[f"{path}/b"] if name != "key" else np.zeros_like(result)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_a_reparametrized_prefix_is_written_as_its_keys_and_values(tmp_path: Path) -> None:
    prefix = PrefixTuning(length=3, hidden_dim=5, shift_positions=True)
    base = configuration_of(MODELS / "gpt2")
    config = replace(base, adapter=prefix)
    shapes = parameters.flatten(parameters.abstract(config)[1])
    random = np.random.default_rng(2)
    own = {path: random.normal(size=shapes[path].shape).astype(np.float32) for path in adapter_paths(config)}
    write_peft(config, parameters.unflatten({**own}), tmp_path)
    start = "decoder/layers/0/self_attention/prefix"
    inner = np.tanh(
        own[f"{start}/vectors"] @ own[f"{start}/hidden/kernel"] + own[f"{start}/hidden/bias"][:, None]
    )
    both = inner @ own[f"{start}/out/kernel"] + own[f"{start}/out/bias"][:, None]
    read = read_peft(tmp_path, base).params
    np.testing.assert_allclose(read[f"{start}/keys"], both[..., :24], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(read[f"{start}/values"], both[..., 24:], rtol=1e-5, atol=1e-5)


def changed(case: str, folder: Path, fields: dict[str, Any], tensors: Callable[[dict], dict] = dict) -> Path:
    """Copy an adapter with other fields and tensors."""
    shutil.copytree(ADAPTERS / case, folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    weights = folder / "adapter_model.safetensors"
    save_file(tensors(load_file(weights)), weights)
    return folder


@pytest.mark.parametrize(
    ("case", "fields", "message"),
    [
        (
            "bert_lora",
            {"peft_type": "ADALORA"},
            "the method ADALORA is not supported; LORA, IA3, PROMPT_TUNING",
        ),
        (
            "bert_lora",
            {"init_lora_weights": "pissa"},
            "init_lora_weights='pissa' changed the weights of the base",
        ),
        ("bert_lora", {"layer_replication": [[0, 2]]}, r"layer_replication=\[\[0, 2\]\] is not supported"),
        ("bert_lora", {"lora_bias": True}, "lora_bias=True is not supported"),
        ("bert_prompt", {}, "classifies by the first virtual token, ours by the first real one"),
        ("t5_prefix", {}, "T5Config prefixes in the decoder's self-attention alone"),
    ],
)
def test_what_we_lack_is_named(tmp_path: Path, case: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_peft(changed(case, tmp_path / "adapter", fields), configuration_of(base_of(case)))


def test_an_adapter_for_another_model_says_what_differs(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"for another GPT2Config:\n  model\.layers\.0\.mlp\.down_proj is no linear"
    ):
        read_peft(ADAPTERS / "llama_lora", configuration_of(MODELS / "gpt2"))
    wider = replace(configuration_of(MODELS / "llama"), mlp_dim=50)
    with pytest.raises(
        ValueError, match=r"layers\.0\.mlp\.down_proj: \(48, 24\), the model needs \(50, 24\)"
    ):
        read_peft(ADAPTERS / "llama_lora", wider)
    with pytest.raises(ValueError, match=r"prompt_embeddings: \(3, 144\), the model needs \(3, 96\)"):
        read_peft(ADAPTERS / "gpt2_prefix", replace(configuration_of(MODELS / "gpt2"), num_layers=2))

    def one_layer(tensors: dict) -> dict:
        return {name: value for name, value in tensors.items() if "layer.1.output.LayerNorm" not in name}

    partial = changed("bert_lora_bias", tmp_path / "partial", {}, one_layer)
    with pytest.raises(
        ValueError, match=r"lacks tensors of bert\.encoder\.layer\.1\.output\.LayerNorm\.bias, which its"
    ):
        read_peft(partial, configuration_of(MODELS / "bert_seqcls"))


@pytest.mark.parametrize("case", ["llama_prompt", "llama_prefix"])
def test_more_virtual_tokens_than_the_file_has_are_refused_before_they_are_made(
    tmp_path: Path, case: str
) -> None:
    adapter = changed(case, tmp_path / "adapter", {"num_virtual_tokens": 2**31 - 1})
    with pytest.raises(ValueError, match=r"prompt_embeddings: \(\d+, \d+\), the model needs \(2147483647"):
        read_peft(adapter, configuration_of(base_of(case)))


def test_what_peft_lacks_is_not_written(tmp_path: Path) -> None:
    base = configuration_of(MODELS / "gpt2")

    def write(adapter: Any, **options: Any) -> None:
        config = replace(base, adapter=adapter)
        shapes = parameters.flatten(parameters.abstract(config)[1])
        zeros = {path: np.zeros(leaf.shape, np.float32) for path, leaf in shapes.items()}
        write_peft(config, parameters.unflatten(zeros), tmp_path / "adapter", **options)

    with pytest.raises(ValueError, match="PEFT has no method for BottleneckAdapter"):
        write(BottleneckAdapter(inner_dim=2))
    with pytest.raises(ValueError, match=r"train it with PrefixTuning\(shift_positions=True\)"):
        write(PrefixTuning(length=3, hidden_dim=None))
    with pytest.raises(
        ValueError, match=r"transformer\.ln_f\.weight was trained with the adapter, and other weights"
    ):
        write(IA3(), trained=["decoder/final_norm/scale"])
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "is an adapter of PEFT\n  give the model that it was trained on with --base"),
        (["--base", "none"], "none holds no model"),
        (["--base", str(MODELS / "llama")], "is for another LlamaConfig"),
    ],
)
def test_an_adapter_needs_its_base(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    flags = ["convert", "--from", str(ADAPTERS / "gpt2_lora"), "--to", str(tmp_path / "run"), *arguments]
    assert main(flags) == 2
    assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match="without the model that it was trained on"):
        t5x_like.from_pretrained(ADAPTERS / "gpt2_lora")


def test_a_run_without_adapter_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["convert", "--from", str(MODELS / "gpt2"), "--to", str(run)]) == 0
    assert main(["convert", "--from", str(run), "--to", str(tmp_path / "peft"), "--export", "peft"]) == 2
    assert "has no adapter over frozen weights" in capsys.readouterr().err


def test_a_copy_of_a_tied_table_that_only_inputs_use_is_refused(tmp_path: Path) -> None:
    base = MODELS / "gpt2"
    table = load_file(base / "model.safetensors")["transformer.wte.weight"]
    folder = changed("gpt2_lora", tmp_path / "adapter", {"modules_to_save": ["wte"]})
    tensors = load_file(folder / "adapter_model.safetensors") | {
        "base_model.model.transformer.wte.weight": table
    }
    save_file(tensors, folder / "adapter_model.safetensors")
    with pytest.raises(
        ValueError, match=r"scores with the same table .* train it with ensure_weight_tying=True"
    ):
        read_peft(folder, configuration_of(base))
    config = json.loads((folder / "adapter_config.json").read_text()) | {"ensure_weight_tying": True}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    assert "embedding/tokens/table" in read_peft(folder, configuration_of(base)).params


def test_an_update_of_an_output_layer_without_weights_is_refused(tmp_path: Path) -> None:
    def on_output(tensors: dict[str, Any]) -> dict[str, Any]:
        a, b = np.zeros((4, 24), np.float32), np.zeros((99, 4), np.float32)
        return tensors | {
            "base_model.model.lm_head.lora_A.weight": a,
            "base_model.model.lm_head.lora_B.weight": b,
        }

    targets = {"target_modules": ["c_attn", "c_proj", "lm_head"]}
    folder = changed("gpt2_lora", tmp_path / "adapter", targets, on_output)
    with pytest.raises(ValueError, match="is on lm_head, which scores with the table of the embeddings"):
        read_peft(folder, configuration_of(MODELS / "gpt2"))


@pytest.mark.parametrize(
    ("case", "fields", "message"),
    [
        ("llama_lora_regex", {"target_modules": r".*q_proj"}, r"has tensors of model\.layers\.0.*v_proj"),
        ("llama_lora_regex", {"target_modules": r".*_proj"}, r"lacks tensors of .*gate_proj"),
        ("llama_lora_regex", {"target_modules": "("}, "no regular expression"),
        ("llama_lora_regex", {"layers_to_transform": [1]}, "need a list in target_modules"),
        ("llama_lora_layers", {"layers_to_transform": [0, 1]}, r"lacks tensors of model\.layers\.0"),
        ("llama_lora_layers", {"layers_pattern": "blocks"}, "PEFT ignores them"),
        ("bert_lora_excluded", {"exclude_modules": None}, r"lacks tensors of .*layer\.0\.attention"),
        ("bert_lora_excluded", {"exclude_modules": ["query"]}, r"has tensors of .*layer\.1.*query"),
    ],
)
def test_modules_that_fields_select_and_tensors_must_agree(
    tmp_path: Path, case: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_peft(changed(case, tmp_path / "adapter", fields), configuration_of(base_of(case)))


def test_a_selection_of_nothing_is_refused(tmp_path: Path) -> None:
    folder = changed(
        "llama_lora_regex", tmp_path / "a", {"target_modules": "q"}, lambda _: {"x.y": np.zeros(1)}
    )
    with pytest.raises(ValueError, match="target_modules='q' selects no module of the model"):
        read_peft(folder, configuration_of(base_of("llama_lora_regex")))
