import pytest

from t5x_like.io.paths import find_file, find_files


def test_shipped_files_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = find_file("data/vocabulary/spiece.model")
    assert file.endswith("data/vocabulary/spiece.model")
    assert len(find_files("data/king_james/*.txt")) == 2


def test_files_of_the_working_directory_come_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "vocabulary").mkdir(parents=True)
    (tmp_path / "data" / "vocabulary" / "spiece.model").write_text("mine")
    assert find_file("data/vocabulary/spiece.model") == "data/vocabulary/spiece.model"


def test_files_are_listed_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "c.tsv"):
        (tmp_path / name).touch()
    files = find_files([str(tmp_path / "c.tsv"), str(tmp_path / "*.txt")])
    assert [path.rpartition("/")[2] for path in files] == ["c.tsv", "a.txt", "b.txt"]


def test_missing_files_are_reported_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError, match=rf"'data/none\.txt' does not exist \(relative paths start at {tmp_path}\)"
    ):
        find_file("data/none.txt")
    with pytest.raises(ValueError, match=r"no file matches 'none/\*\.txt'"):
        find_files("none/*.txt")
    with pytest.raises(ValueError, match="no files given"):
        find_files([])
