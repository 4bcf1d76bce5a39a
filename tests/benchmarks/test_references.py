"""The command that compares recorded values: what it recognizes, what it prints, and its exit status."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.references.__main__ import main
from benchmarks.references.forms import NoForm, find_references
from benchmarks.references.reference import DifferenceError, check_close, compare_all
from tests.references import FIXTURES, read_arrays

ANSWERS = [{"in": "The Cat!", "normalize_squad": "cat", "normalize_trivia_qa": "cat"}]


def write(file: Path, content: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def test_references_are_known_by_what_they_hold_wherever_they_lie(tmp_path: Path, capsys):
    write(tmp_path / "deep/down/any_name.json", ANSWERS * 3)
    lines = (FIXTURES / "metrics/metrics.jsonl").read_text().splitlines()[:2]
    (tmp_path / "scores.jsonl").write_text("\n".join(lines))
    shutil.copy(FIXTURES / "recurrent/gru_1.npz", tmp_path / "deep/layer.npz")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "metrics: 5 of 5",
        "recurrent: 1 of 1",
        "passed 6 of 6",
    ]


def test_what_differs_is_named_and_the_rest_still_compared(tmp_path: Path, capsys):
    wrong = [*ANSWERS, {**ANSWERS[0], "normalize_squad": "the cat"}, *ANSWERS]
    file = write(tmp_path / "answers.json", wrong)
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"differs  {file} answer 2: normalize_squad is 'cat', recorded is 'the cat'",
        "metrics: 2 of 3",
        "passed 2 of 3",
    ]


def test_what_has_no_form_is_named_and_no_pass(tmp_path: Path, capsys):
    write(tmp_path / "answers.json", ANSWERS)
    other = write(tmp_path / "other.json", {"figures": [1]})
    model = write(tmp_path / "speech/config.json", {"model_type": "whisper"}).parent
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"no form  {other}: its content is of no form that we compare",
        f"no form  {model}: we have no architecture of model_type 'whisper'",
        "metrics: 1 of 1",
        "passed 1 of 1",
    ]


def test_mistakes_end_with_2(tmp_path: Path, capsys):
    assert main([str(tmp_path / "absent")]) == 2
    assert (
        capsys.readouterr().err
        == f"error: there is no folder {tmp_path / 'absent'}; name folders of references\n"
    )
    write(tmp_path / "notes.json", [])
    assert main([str(tmp_path)]) == 2
    assert f"error: {tmp_path} has no references of a form that we compare" in capsys.readouterr().err


def test_a_model_with_another_weight_differs(tmp_path: Path, capsys):
    directory = tmp_path / "renamed"
    shutil.copytree(FIXTURES / "models/gpt2_seqcls", directory)
    io = read_arrays(directory / "io.npz")
    io["out_logits"] = io["out_logits"] + np.float32(3e-4)
    np.savez(
        directory / "io.npz", **{name: array for name, array in io.items() if not name.startswith("grad_")}
    )
    assert main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert f"differs  {directory} outputs: logits is " in printed
    assert "differ by more than 0.0001" in printed


def test_an_adapter_finds_the_model_that_its_file_names(tmp_path: Path):
    shutil.copytree(FIXTURES / "peft/gpt2_lora", tmp_path / "adapters/first")
    shutil.copytree(FIXTURES / "models/gpt2", tmp_path / "models/gpt2")
    (reference,) = find_references(tmp_path / "adapters")
    assert not isinstance(reference, NoForm)
    reference.compare()
    (tmp_path / "models/gpt2").rename(tmp_path / "models/gpt3")
    with pytest.raises(
        DifferenceError, match="base model 'gpt2' lies neither beside it nor in a folder models"
    ):
        reference.compare()


def test_pickled_weights_are_to_be_refused():
    references = list(find_references(FIXTURES / "models/variants/bert_legacy_bin"))
    assert compare_all(references) == 1  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("got", "message"),
    [
        ([1.0, 2.0, np.nan], r"a is nan at \(2,\), recorded is 3; 1 of 3 differ by more than 0.0001"),
        ([1.0, 2.1, 3.0], r"a is 2.1 at \(1,\), recorded is 2"),
        ([1.0, 2.0], r"a has shape \(2,\), recorded is \(3,\)"),
        ([1.0, 2.0, np.inf], r"a is inf at \(2,\)"),
    ],
)
def test_arrays_are_compared_everywhere(got, message):
    check_close([1.0, 2.00005, 3.0], [1.0, 2.0, 3.0], "a")
    check_close([np.nan, np.inf], [np.nan, np.inf], "a")
    with pytest.raises(DifferenceError, match=message):
        check_close(got, [1.0, 2.0, 3.0], "a")


def test_adapters_that_are_to_be_refused_pass_by_their_message(tmp_path: Path, capsys):
    assert main([str(FIXTURES / "peft/bert_prompt")]) == 0
    home = shutil.copytree(FIXTURES / "peft/bert_prompt", tmp_path / "adapter")
    shutil.copytree(FIXTURES / "models/bert_seqcls", tmp_path / "bert_seqcls")
    write(home / "meta.json", {"refused": "too long"})
    assert main([str(home)]) == 1
    assert "it is refused with another message than 'too long'" in capsys.readouterr().out


def test_analyses_are_known_by_their_arrays_and_compared(tmp_path: Path, capsys):
    home = shutil.copytree(FIXTURES / "analysis/vectors", tmp_path / "any_name")
    assert main([str(home)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "passed 9 of 9"
    arrays = read_arrays(home / "io.npz")
    arrays["out_removed_7"] = arrays.pop("out_removed_1")
    arrays["out_whitened_2_gram"] = arrays["out_whitened_2_gram"] + 1e-4
    np.savez(home / "io.npz", **arrays)
    assert main([str(home)]) == 1
    printed = capsys.readouterr().out
    assert f"differs  {home} out_whitened_2_gram: out_whitened_2_gram is " in printed
    assert f"differs  {home} out_removed_7: ValueError: num_components is 7" in printed
    model = next(iter(find_references(FIXTURES / "analysis/attribution_bert_mlm")))
    assert not isinstance(model, NoForm)
    assert model.form == "attribution"
