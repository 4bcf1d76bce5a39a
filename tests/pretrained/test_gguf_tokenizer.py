"""GGUF files hold the tokenizer: llama.cpp and we read the same ids from text, and write the same text."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import sentencepiece

from t5x_like.cli.main import main
from t5x_like.model import parameters
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.gguf_export import write_gguf
from t5x_like.pretrained.gguf_tokenizer import tokenizer_metadata
from t5x_like.pretrained.transformers_api.exports import export_hugging_face
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained, from_pretrained
from t5x_like.text.vocabularies.hugging_face_tokenizer import HuggingFaceTokenizer
from t5x_like.text.vocabularies.opening import open_tokenizer, vocabulary_contents
from t5x_like.text.vocabularies.sentencepiece_tokenizer import parse_model
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds
from tests.references import FIXTURES, ROOT

gguf = pytest.importorskip("gguf")

TEXT = ROOT / "data/king_james/validation.txt"
ODD_TEXTS = json.loads((FIXTURES / "gguf/ids.json").read_text(encoding="utf-8"))["texts"]
KINDS = ("unigram", "bytebpe", "bpe", "bpe_json")


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> Path:
    """Directories of vocabularies: the shipped unigram model, BPE over bytes, and BPE as in Llama 2, in two files."""
    folder = tmp_path_factory.mktemp("vocabularies")
    for kind in KINDS:
        (folder / kind).mkdir()
    shutil.copy(ROOT / "data/vocabulary/spiece.model", folder / "unigram")
    learn = ["vocabulary", "learn", "--input", str(TEXT), "--size", "400", "--kind", "bytebpe"]
    assert main([*learn, "--output", str(folder / "bytebpe")]) == 0
    sentencepiece.SentencePieceTrainer.train(
        input=str(TEXT),
        model_prefix=str(folder / "bpe/tokenizer"),
        vocab_size=400,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    definition = byte_fallback_definition(folder / "bpe/tokenizer.model")
    (folder / "bpe_json/tokenizer.json").write_text(json.dumps(definition))
    return folder


def byte_fallback_definition(model) -> dict:
    """The ``tokenizer.json`` of a SentencePiece BPE, with the merges that its scores imply."""
    pieces = parse_model(str(model), model.read_bytes()).pieces
    vocabulary = {piece.piece: token_id for token_id, piece in enumerate(pieces)}
    merges = [
        (piece.piece[:cut], piece.piece[cut:])
        for piece in sorted(pieces, key=lambda piece: -piece.score)
        if piece.type == piece.NORMAL
        for cut in range(1, len(piece.piece))
        if piece.piece[:cut] in vocabulary and piece.piece[cut:] in vocabulary
    ]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, strip],
        },
        "model": {
            "type": "BPE",
            "vocab": vocabulary,
            "merges": merges,
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_of_the_embedding_has_a_token(vocabularies, kind):
    tokenizer = open_tokenizer(vocabularies / kind, 5)
    rows = tokenizer.vocab_size + 3
    metadata = tokenizer_metadata(tokenizer, rows)
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    assert len(tokens) == len(kinds) == len(metadata["tokenizer.ggml.scores"]) == rows == len(set(tokens))
    assert [tokens[token_id].strip("▁") for token_id in range(rows - 8, rows - 3)] == [
        f"<extra_id_{number}>" for number in (4, 3, 2, 1, 0)
    ]
    assert kinds[-8:] == [3] * 5 + [5] * 3  # sentinels are control tokens, the rest is unused
    assert metadata["tokenizer.ggml.model"] == {"unigram": "t5", "bytebpe": "gpt2"}.get(kind, "llama")


def test_texts_begin_with_bos_where_the_files_say_so(vocabularies, tmp_path):
    assert ends(open_tokenizer(vocabularies / "bpe")) == (False, False)
    shutil.copytree(vocabularies / "bpe", tmp_path / "llama")
    (tmp_path / "llama/tokenizer_config.json").write_text('{"add_bos_token": true, "add_eos_token": false}')
    assert ends(open_tokenizer(tmp_path / "llama")) == (True, False)
    definition = definition_of(vocabularies / "bytebpe")
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    special = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
    definition["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": special,
    }
    (tmp_path / "template").mkdir()
    (tmp_path / "template/tokenizer.json").write_text(json.dumps(definition))
    assert ends(open_tokenizer(tmp_path / "template")) == (True, False)


def definition_of(path):
    tokenizer = open_tokenizer(path)
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    return dict(tokenizer.definition)


def ends(tokenizer):
    metadata = tokenizer_metadata(tokenizer, tokenizer.vocab_size)
    return metadata["tokenizer.ggml.add_bos_token"], metadata["tokenizer.ggml.add_eos_token"]


def test_a_tokenizer_that_llama_cpp_lacks_is_left_out_with_a_warning(tmp_path):
    config, params = tiny_model(512)
    with pytest.warns(UserWarning, match=r"m\.gguf has no tokenizer: .*of the kind bytes"):
        write_gguf(config, params, tmp_path / "m.gguf", tokenizer=open_tokenizer("bytes"))
    assert field(tmp_path / "m.gguf", "model") == "no_vocab"


def test_patterns_that_cut_words_are_named_as_llama_cpp_names_them(vocabularies, tmp_path):
    definition = definition_of(vocabularies / "bytebpe")
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    digits = {"type": "Digits", "individual_digits": True}
    qwen = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        r"\s+(?!\S)|\s+"
    )

    def name_of(*steps):
        definition["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": list(steps)}
        (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
        tokenizer = open_tokenizer(tmp_path)
        return tokenizer_metadata(tokenizer, tokenizer.vocab_size)["tokenizer.ggml.pre"]

    def split(pattern):
        return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}

    assert name_of({**level, "use_regex": True}) == "gpt-2"
    assert name_of(split(qwen), level) == "qwen2"
    assert name_of(split(qwen.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)), level) == "llama-bpe"
    assert name_of(digits, {**level, "use_regex": True}) == "smollm"
    with pytest.raises(ValueError, match="pattern that cuts text into words"):
        name_of(split(r"\w+"), level)
    with pytest.raises(ValueError, match="can't put a space before a text"):
        name_of({**level, "use_regex": True, "add_prefix_space": True})


def tiny_model(vocab_size):
    config = LlamaConfig(
        vocab_size=vocab_size, model_dim=32, mlp_dim=64, num_heads=4, num_kv_heads=2, num_layers=2
    )
    params = jax.jit(lambda key: parameters.split(config.build(key))[1])(jax.random.key(0))
    rng = np.random.default_rng(0)
    return config, jax.tree.map(lambda leaf: leaf + rng.normal(0, 0.1, leaf.shape).astype(np.float32), params)


@pytest.fixture(scope="module")
def with_text(tmp_path_factory) -> Path:
    """A GGUF file of a tiny model with a cut of SmolLM2's tokenizer."""
    path = tmp_path_factory.mktemp("with_text") / "m.gguf"
    tokenizer = open_tokenizer(FIXTURES / "gguf/smollm.gguf", 0)
    config, params = tiny_model(-(-tokenizer.vocab_size // 128) * 128)
    write_gguf(config, params, path, special_ids=SpecialTokenIds(pad=2, eos=2, bos=1), tokenizer=tokenizer)
    return path


def test_a_gguf_file_reads_and_writes_text_with_its_own_tokenizer(with_text):
    tokenizer, pretrained = open_tokenizer(FIXTURES / "gguf/smollm.gguf", 0), from_pretrained(with_text)
    text = "The capital of France is"
    assert pretrained.vocabulary == tokenizer
    ids = pretrained.encode(text)["input_ids"]
    assert ids[0].tolist() == tokenizer.encode(text)  # bos is an id of the model, and no text begins with it
    written = np.asarray(pretrained.generate(ids, max_new_tokens=6))[0, ids.shape[1] :]
    assert pretrained.generate(text, max_new_tokens=6) == tokenizer.decode(written)


def test_special_ids_beyond_the_table_are_none(tmp_path):
    config, params = tiny_model(128)
    write_gguf(config, params, tmp_path / "m.gguf", special_ids=SpecialTokenIds(pad=2**32 - 1, eos=2, bos=1))
    special = from_pretrained(tmp_path / "m.gguf").special_ids
    assert (special.bos, special.eos, special.pad) == (1, 2, None)


def test_conversions_of_a_gguf_file_keep_its_tokenizer(with_text, tmp_path):
    text = "So 42  naïve cafés."
    expected = from_pretrained(with_text).encode(text)["input_ids"]
    assert main(["convert", "--from", str(with_text), "--to", str(tmp_path / "run")]) == 0
    export = ["convert", "--from", str(tmp_path / "run"), "--export"]
    assert main([*export, "hf", "--to", str(tmp_path / "hf")]) == 0
    assert main([*export, "gguf", "--to", str(tmp_path / "gguf")]) == 0
    export_hugging_face(from_pretrained(with_text), tmp_path / "python")
    for name in ("run", "hf", "gguf/model.gguf", "python"):
        np.testing.assert_array_equal(from_pretrained(tmp_path / name).encode(text)["input_ids"], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_tokenizer_is_read_back_with_the_same_ids(vocabularies, tmp_path, kind):
    tokenizer = open_tokenizer(vocabularies / kind, 5)
    config, params = tiny_model(-(-tokenizer.vocab_size // 128) * 128)
    write_gguf(config, params, tmp_path / "m.gguf", tokenizer=tokenizer)
    read = open_tokenizer(tmp_path / "m.gguf")
    assert (read.vocab_size, read.num_sentinels) == (tokenizer.vocab_size, 5)
    assert read.encode_all(ODD_TEXTS) == tokenizer.encode_all(ODD_TEXTS)
    write_gguf(config, params, tmp_path / "again.gguf", tokenizer=read)
    assert open_tokenizer(tmp_path / "again.gguf").encode_all(ODD_TEXTS) == read.encode_all(ODD_TEXTS)
    known = [ids for ids in tokenizer.encode_all(ODD_TEXTS) if tokenizer.special.unk not in ids]
    assert [read.decode(ids) for ids in known] == [tokenizer.decode(ids) for ids in known]


def test_chat_templates_are_written_and_read(tmp_path):
    definition = {"tokenizer.json": vocabulary_contents(FIXTURES / "gguf/smollm.gguf")["tokenizer.json"]}
    named = [{"name": "default", "template": "{{ 1 }}"}, {"name": "tools", "template": "{{ 2 }}"}]
    config, params = tiny_model(640)
    for index, template in enumerate(("{{ messages }}", named)):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / "tokenizer.json").write_bytes(definition["tokenizer.json"])
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        write_gguf(config, params, folder / "m.gguf", tokenizer=open_tokenizer(folder, 0))
        assert open_tokenizer(folder / "m.gguf", 0).chat_template == template


def test_a_tokenizer_that_can_not_be_read_is_left_out_of_a_conversion_with_a_warning(with_text, tmp_path):
    content = with_text.read_bytes()
    (tmp_path / "m.gguf").write_bytes(content.replace(b"smollm", b"smoll0"))
    with pytest.warns(UserWarning, match=r"the tokenizer is left out: .*'smoll0', a way to cut words"):
        assert main(["convert", "--from", str(tmp_path / "m.gguf"), "--to", str(tmp_path / "run")]) == 0
    assert from_pretrained(tmp_path / "run").vocabulary is None


def field(path, name):
    return gguf.GGUFReader(path).fields[f"tokenizer.ggml.{name}"].contents()


# A process of its own: llama.cpp starts threads and a server, and what it returns is compared here.
READ_BY_LLAMA_CPP = """
import json, sys, urllib.request
import xllamacpp

def post(address, path, body):
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)

path, cases = sys.argv[1], json.loads(sys.stdin.read())
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.n_ctx, parameters.n_parallel, parameters.warmup = path, 256, 1, False
server = xllamacpp.Server(parameters)
address = server.listening_address
tokenize = lambda text: post(address, "/tokenize", {"content": text, "parse_special": False})["tokens"]
settings = {"n_predict": 8, "temperature": 0, "return_tokens": True}
print(json.dumps({
    "ids": [tokenize(text) for text in cases["texts"]],
    "texts": [post(address, "/detokenize", {"tokens": ids})["content"] for ids in cases["known"]],
    "generated": post(address, "/completion", {"prompt": cases["prompt"], **settings})["tokens"],
}))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_llama_cpp_reads_and_writes_the_same(vocabularies, tmp_path, kind):
    pytest.importorskip("xllamacpp", reason="llama.cpp (pip install xllamacpp) isn't installed")
    tokenizer = open_tokenizer(vocabularies / kind, 5)
    config, params = tiny_model(-(-tokenizer.vocab_size // 128) * 128)
    ids = SpecialTokenIds(pad=tokenizer.special.pad or 0, bos=tokenizer.special.bos)
    write_gguf(config, params, tmp_path / "m.gguf", special_ids=ids, tokenizer=tokenizer)
    texts = [
        *TEXT.read_text(encoding="utf-8").split("\n")[:40],
        "two  spaces",
        "naïve café 12345 x=3",
        " leading",
        "we'll DON'T",
    ]
    texts += ["日本語 🙂", "a\ttab\nand a line", "<extra_id_0> </s> <pad>"]
    encoded = [tokenizer.encode(text) for text in texts]
    known = [numbers for numbers in encoded if tokenizer.special.unk not in numbers]
    prompt = encoded[0][:8]
    cases = json.dumps({"texts": texts, "known": known, "prompt": prompt})
    command = [sys.executable, "-c", READ_BY_LLAMA_CPP, str(tmp_path / "m.gguf")]
    done = subprocess.run(command, input=cases, capture_output=True, text=True, timeout=120, check=True)
    read = json.loads(done.stdout.splitlines()[-1])
    assert read["ids"] == encoded
    assert [text.strip() for text in read["texts"]] == [
        tokenizer.decode(numbers).strip() for numbers in known
    ]
    graphdef = parameters.split(config.build(jax.random.key(0)))[0]
    fields = {"eos_token_id": None, "pad_token_id": 0}
    opened = Checkpoint.in_memory(parameters.merge(graphdef, params), config, fields)
    generated = Pretrained(opened).generate(np.array([prompt]), max_new_tokens=8)
    assert read["generated"] == np.asarray(generated)[0, len(prompt) :].tolist()
