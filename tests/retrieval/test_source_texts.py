"""Texts of folders and tables have an id and their file."""

import json

import pytest

from t5x_like.retrieval.source_texts import SourceText, TextColumns, read_source_texts


def test_a_folders_texts_are_named_by_their_path_in_it(tmp_path):
    folder = tmp_path / "notes"
    (folder / "below").mkdir(parents=True)
    (folder / "b.txt").write_text("second")
    (folder / "below/a.txt").write_text("first\nline")
    (folder / "c.png").write_bytes(b"\x89PNG")
    assert list(read_source_texts([str(folder)])) == [
        SourceText("notes/b.txt", "notes/b.txt", "second"),
        SourceText("notes/below/a.txt", "notes/below/a.txt", "first\nline"),
    ]


def test_a_beir_corpus_has_its_ids_and_titles(tmp_path):
    rows = [{"_id": "d1", "title": "Whales", "text": "They swim."}, {"_id": "d2", "title": "", "text": "No."}]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = list(read_source_texts([str(tmp_path / "corpus.jsonl")]))
    assert [(each.id, each.text) for each in texts] == [("d1", "Whales They swim."), ("d2", "No.")]


def test_rows_without_an_id_are_named_by_their_place_and_blank_ones_left_out(tmp_path):
    (tmp_path / "rows.csv").write_text("words,n\none,1\n ,2\nthree,3\n")
    file = str(tmp_path / "rows.csv")
    texts = list(read_source_texts([file], TextColumns(text="words")))
    assert [(each.id, each.text) for each in texts] == [(f"{file}:1", "one"), (f"{file}:3", "three")]


def test_a_table_without_a_usual_column_names_its_columns(tmp_path):
    (tmp_path / "rows.tsv").write_text("words\tn\none\t1\n")
    with pytest.raises(ValueError, match="the columns are words, n"):
        list(read_source_texts([str(tmp_path / "rows.tsv")]))


def test_a_folder_without_texts_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="a folder without a file to read"):
        list(read_source_texts([str(tmp_path / "empty")]))
