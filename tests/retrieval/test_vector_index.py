"""An index finds its texts, continues where it was stopped, and refuses what doesn't belong to it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from t5x_like.retrieval.passages import PassageLength
from t5x_like.retrieval.source_texts import SourceText
from t5x_like.retrieval.text_embedder import EmbeddingSettings, TextEmbedder
from t5x_like.retrieval.vector_index import IndexSettings, VectorIndex, build_index
from tests.retrieval.tiny_embedder import open_embedder, write_model

TEXTS = [
    SourceText("whales", "a.txt", "whales are mammals"),
    SourceText("paris", "b.txt", "paris is the capital of france"),
    SourceText("rust", "c.txt", "rust is a language"),
    SourceText("cats", "d.txt", "cats sleep all day long"),
    SourceText("long", "e.txt", "the capital of the language is the day of the animals which are cats"),
]
SETTINGS = IndexSettings(passages=PassageLength(length=8, overlap=2), block_size=2)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return open_embedder(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def index(embedder, tmp_path):
    build_index(TEXTS, embedder, str(tmp_path / "index"), SETTINGS)
    return VectorIndex(tmp_path / "index")


def test_a_text_is_nearest_to_itself_and_names_its_file_and_passage(index, embedder):
    results = index.search(embedder, [text.text for text in TEXTS[:4]], 2)
    assert [of_query[0].passage.id for of_query in results] == ["whales", "paris", "rust", "cats"]
    assert [of_query[0].score for of_query in results] == pytest.approx([1.0] * 4, abs=2e-3)
    last = index.passage(len(index) - 1)
    assert (last.id, last.file, last.index) == ("long", "e.txt", 1)
    assert last.text == "the day of the animals which are cats"


def test_vectors_are_those_that_the_model_embeds(index, embedder):
    blocks = np.concatenate(list(index.blocks()))
    assert blocks.dtype == np.float16
    texts = [index.passage(row).text for row in range(len(index))]
    np.testing.assert_allclose(blocks, embedder.embed(texts, "document"), atol=1e-3)


def test_a_build_that_was_stopped_continues_and_gives_the_same_files(index, embedder, tmp_path, monkeypatch):
    stopped = tmp_path / "stopped"
    calls = []

    def embed(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return TextEmbedder.embed(embedder, *arguments, **options)

    monkeypatch.setattr(embedder, "embed", embed, raising=False)
    with pytest.raises(KeyboardInterrupt):
        build_index(TEXTS, embedder, str(stopped), SETTINGS)
    with pytest.raises(ValueError, match="half-written, with 2 blocks"):
        VectorIndex(stopped)
    monkeypatch.undo()
    counts = build_index(TEXTS, embedder, str(stopped), SETTINGS)
    assert counts.num_encoded == counts.num_passages - 4
    for path in sorted(index.directory.iterdir()):
        assert path.read_bytes() == (stopped / path.name).read_bytes()


def test_only_blocks_with_changed_passages_are_encoded_again(index, embedder, tmp_path):
    texts = [*TEXTS[:2], SourceText("rust", "c.txt", "rust is a long language"), TEXTS[3]]
    counts = build_index(texts, embedder, str(tmp_path / "index"), SETTINGS)
    assert counts[:3] == (4, 4, 2)
    again = VectorIndex(tmp_path / "index")
    assert len(again) == 4
    assert len(list(again.directory.glob("vectors-*"))) == 2
    assert again.search(embedder, ["rust is a long language"], 1)[0][0].passage.id == "rust"


def test_the_model_is_opened_again_with_the_settings_of_the_index(tmp_path):
    settings = EmbeddingSettings(query_prompt="query: ", document_prompt="passage: ")
    built_by = open_embedder(tmp_path / "model", settings)
    build_index(TEXTS, built_by, str(tmp_path / "index"), SETTINGS)
    opened = VectorIndex(tmp_path / "index").open_embedder()
    assert opened.settings == built_by.settings
    np.testing.assert_array_equal(opened.embed(["rust"], "query"), built_by.embed(["rust"], "query"))
    assert not np.allclose(opened.embed(["rust"], "query"), opened.embed(["rust"], "document"), atol=1e-4)


def test_prompts_of_a_sentence_transformers_directory_are_used(tmp_path):
    directory = write_model(tmp_path / "model", prompts={"query": "query: ", "passage": "passage: "})
    own = TextEmbedder.open(directory)
    assert (own.settings.query_prompt, own.settings.document_prompt) == ("query: ", "passage: ")
    plain = TextEmbedder.open(directory, EmbeddingSettings(query_prompt="", document_prompt=""))
    np.testing.assert_allclose(own.embed(["rust"], "query"), plain.embed(["query: rust"], "query"), atol=1e-6)


def test_inner_products_are_those_of_vectors_as_they_are(embedder, tmp_path):
    dot = TextEmbedder.open(embedder.checkpoint, EmbeddingSettings(similarity="dot"))
    build_index(TEXTS, dot, str(tmp_path / "dot"), replace(SETTINGS, vector_dtype="float32"))
    index = VectorIndex(tmp_path / "dot")
    best = index.search(dot, ["rust"], 1)[0][0]
    vectors = [dot.embed(["rust"], "query")[0], dot.embed([best.passage.text], "document")[0]]
    assert np.linalg.norm(vectors[0]) > 1.1
    assert best.score == pytest.approx(float(vectors[0] @ vectors[1]), rel=1e-5)


def test_another_model_is_refused(index, tmp_path):
    other = write_model(tmp_path / "other", max_length=16)
    with pytest.raises(ValueError, match="is another model"):
        index.open_embedder(str(other))


def test_vectors_of_another_width_are_refused(index, embedder):
    index.width = 16
    with pytest.raises(ValueError, match=r"vectors of width 32, and those of .* have 16"):
        index.search(embedder, ["rust"])


def test_more_results_than_passages_are_refused_and_the_default_is_as_many_as_there_are(index, embedder):
    with pytest.raises(ValueError, match=r"top_k=8: .* has 6 passages; give 1 to 6"):
        index.search(embedder, ["rust"], 8)
    assert len(index.search(embedder, ["rust"])[0]) == 6


def test_an_empty_question_is_refused(index, embedder):
    with pytest.raises(ValueError, match="query 2 is empty"):
        index.search(embedder, ["rust", " "])


def test_other_settings_are_refused_in_the_same_folder(index, embedder):
    with pytest.raises(ValueError, match="passage_length=8, and passage_length=4 is wanted"):
        build_index(
            TEXTS,
            embedder,
            str(index.directory),
            replace(SETTINGS, passages=PassageLength(length=4, overlap=0)),
        )


def test_a_folder_of_something_else_is_left_alone(embedder, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"is no index, and has thesis\.txt"):
        build_index(TEXTS, embedder, str(tmp_path), SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_no_texts_leave_no_folder(embedder, tmp_path):
    with pytest.raises(ValueError, match="there is no text to index"):
        build_index([], embedder, str(tmp_path / "index"), SETTINGS)
    assert not (tmp_path / "index").exists()


def test_vectors_that_are_not_finite_are_refused(index, embedder):
    path = str(index.directory / "vectors-00001.safetensors")
    vectors = load_file(path)["vectors"]
    vectors[0, 0] = np.nan
    save_file({"vectors": vectors}, path)
    with pytest.raises(ValueError, match="block 1 of the vectors has values that are not finite"):
        index.search(embedder, ["rust"], 1)


def test_vectors_that_float16_cannot_hold_are_refused(embedder, tmp_path, monkeypatch):
    huge = np.full((2, 32), 1e5, np.float32)
    monkeypatch.setattr(embedder, "embed", lambda *_, **__: huge, raising=False)
    with pytest.raises(ValueError, match="1e\\+05, which float16 can't hold"):
        build_index(TEXTS[:2], embedder, str(tmp_path / "index"), SETTINGS)


@pytest.mark.parametrize("name", ["vectors-00000.safetensors", "passages-00002.jsonl"])
def test_a_missing_file_is_named(index, name):
    (index.directory / name).unlink()
    with pytest.raises(ValueError, match=f"lacks {name}"):
        VectorIndex(index.directory)


def test_changed_passages_are_refused(index, embedder):
    path = index.directory / "passages-00000.jsonl"
    path.write_text(path.read_text().replace("whales", "sharks"))
    with pytest.raises(ValueError, match=r"passages-00000\.jsonl is not what was indexed"):
        index.search(embedder, ["whales are mammals"], 1)


def test_a_cut_file_of_vectors_is_named(index, embedder):
    path = index.directory / "vectors-00001.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"vectors-00001\.safetensors is damaged"):
        index.search(embedder, ["rust"], 1)


def test_a_folder_that_is_no_index_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"is no index, it has no index\.json"):
        VectorIndex(tmp_path)
    (tmp_path / "index.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(ValueError, match="format 9 is not known"):
        VectorIndex(tmp_path)


def test_a_prompt_that_leaves_no_room_is_refused(embedder):
    long = TextEmbedder.open(
        embedder.checkpoint, EmbeddingSettings(document_prompt="the " * 40, max_length=32)
    )
    with pytest.raises(ValueError, match=r"prompt .* has 40 tokens, and the model reads 32"):
        long.num_text_tokens()
