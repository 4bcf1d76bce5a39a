"""Ids of prompts: those of transformers' tokenizers, the same ones wherever a checkpoint reads a text."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from t5x_like.evaluation.prompts import Prompter, PromptStyle
from t5x_like.evaluation.text_model import TextModel
from t5x_like.io.files import shipped_directory, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.checkpoint import Checkpoint, mesh_or_one_device
from tests.model.zoo.tiny_models import TINY

PIECES = ("<s>", "<pad>", "</s>", "<unk>", "i", "n", "t", "h", "e", "g", "in", "th", "the")
NAMES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "in", "the", "begin", "##ning")
CONFIGS = TINY | {
    "t5": T5Config(
        vocab_size=4224,
        model_dim=8,
        mlp_dim=8,
        num_heads=2,
        head_dim=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
}
FIELDS: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5"},
    "bert": {"model_type": "bert"},
    "bart": {"model_type": "bart", "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2},
    "llama": {"model_type": "llama", "bos_token_id": 0, "eos_token_id": 2},
    "gpt2": {"model_type": "gpt2", "bos_token_id": 2, "eos_token_id": 2},
}
# Of transformers 5.24: T5Tokenizer, BertTokenizer, and PreTrainedTokenizerFast with the template of each family.
EXPECTED: dict[str, tuple[str, dict[int | None, list[int]]]] = {
    "t5": ("in the beginning", {None: [24, 3, 1866, 1], 3: [24, 3, 1], 2: [24, 1], 1: [1]}),
    "bert": ("in the beginning", {None: [2, 5, 6, 7, 8, 3], 3: [2, 5, 3], 2: [2, 3]}),
    "bart": ("in the n", {None: [0, 10, 12, 5, 2], 3: [0, 10, 2], 2: [0, 2]}),
    "llama": ("in the n", {None: [0, 10, 12, 5], 3: [0, 10, 12], 2: [0, 10]}),
    "gpt2": ("in the n", {None: [10, 12, 5], 3: [10, 12, 5], 2: [10, 12]}),
}
ALONE = {
    "t5": [1],
    "bert": [2, 3],
    "bart": [0, 2],
    "llama": [0],
    "gpt2": [2],
}  # GPT-2 continues its end of text


def definition(prefix: tuple[int, ...], suffix: tuple[int, ...]) -> dict[str, Any]:
    """Return a ``tokenizer.json`` that puts special pieces around a text."""
    special = {token_id: {"SpecialToken": {"id": PIECES[token_id], "type_id": 0}} for token_id in range(4)}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    single = [*(special[token_id] for token_id in prefix), text, *(special[token_id] for token_id in suffix)]
    used = {
        PIECES[token_id]: {"id": PIECES[token_id], "ids": [token_id], "tokens": [PIECES[token_id]]}
        for token_id in range(4)
    }
    return {
        "version": "1.0",
        "added_tokens": [{"id": n, "content": PIECES[n], "special": True, **flags} for n in range(4)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": used,
        },
        "decoder": None,
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "vocab": {piece: token_id for token_id, piece in enumerate(PIECES)},
            "merges": [["i", "n"], ["t", "h"], ["th", "e"]],
        },
    }


def opened(name: str, directory: Path) -> Checkpoint:
    """Return a checkpoint with the tokenizer of its family, and shapes in place of weights."""
    if name == "t5":
        shutil.copy(shipped_directory("data") / "vocabulary/spiece.model", directory)
    elif name == "bert":
        (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    else:
        prefix, suffix = {"bart": ((0,), (2,)), "llama": ((0,), ()), "gpt2": ((), ())}[name]
        (directory / "tokenizer.json").write_text(json.dumps(definition(prefix, suffix)))
        write_json(directory / "tokenizer_config.json", NAMES)
    graphdef, shapes, _ = parameters.abstract(CONFIGS[name])
    return Checkpoint(
        directory=str(directory),
        step=None,
        config=CONFIGS[name],
        graphdef=graphdef,
        params=shapes,
        mesh=mesh_or_one_device(None),
        fields=FIELDS[name],
        class_names=(),
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_texts_have_the_ids_of_transformers_also_where_they_are_cut(name: str, tmp_path: Path) -> None:
    encoder = opened(name, tmp_path).prompt_encoder
    text, expected = EXPECTED[name]
    assert {length: encoder.encode(text, length) for length in expected} == expected
    assert encoder.encode("") == ALONE[name]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "bert"])
def test_an_evaluation_reads_the_same_prompts(name: str, tmp_path: Path) -> None:
    model = TextModel.of_checkpoint(opened(name, tmp_path))
    prompter = Prompter(task="x", style=PromptStyle())
    texts = [EXPECTED[name][0], ""]
    prompts = [prompter.prompt(index, text) for index, text in enumerate(texts)]
    encoded = model.encode_prompts(prompter, prompts, length=16)
    assert [prompt.ids.tolist() for prompt in encoded] == [EXPECTED[name][1][None], ALONE[name]]


def test_a_tokenizer_that_says_it_adds_no_beginning_adds_none(tmp_path: Path) -> None:
    checkpoint = opened("llama", tmp_path)
    write_json(tmp_path / "tokenizer_config.json", {**NAMES, "add_bos_token": False})
    assert checkpoint.prompt_encoder.encode("in") == [10]


@pytest.mark.parametrize(("name", "length"), [("bert", 1), ("gpt2", 0)])
def test_a_length_without_space_for_the_special_ids_is_refused(
    name: str, length: int, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=rf"max_length is {length}, and each text has \d special tokens"):
        opened(name, tmp_path).prompt_encoder.encode("in the", length)
