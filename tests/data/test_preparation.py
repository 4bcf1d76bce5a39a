"""The command line of the preparation scripts, and the cards of the shipped data."""

import hashlib
import tomllib
from pathlib import Path

import pytest

from data.prepare.preparation import describe_files, prepare_from_command_line
from t5x_like.io.files import shipped_directory


def copy(package, output):
    content = Path(package).read_bytes()
    if not content:
        raise ValueError(f"{package} is empty")
    Path(output).mkdir()
    (Path(output) / "train.tsv").write_bytes(content)


def run(package, output):
    arguments = ["--package", str(package), "--output", str(output)]
    prepare_from_command_line(copy, about="Copies.", package="any file", arguments=arguments)


def test_the_command_line_prints_the_table_of_the_card(tmp_path, capsys):
    content = b"name\tvalue\na\t1\nb\t2\n"
    (tmp_path / "package").write_bytes(content)
    run(tmp_path / "package", tmp_path / "output")
    assert f"| train.tsv | 2 | 19 | {hashlib.sha256(content).hexdigest()} |" in capsys.readouterr().out


def test_a_bad_package_ends_with_its_reason_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "package").write_bytes(b"")
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path / "package", tmp_path / "output")
    assert "is empty" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path / "absent", tmp_path / "output")


@pytest.mark.parametrize(
    "folder",
    [
        "king_james",
        "wordnet_definitions",
        "cmudict",
        "vocabulary",
        "conversations",
        "bad_words",
        "debian_handbook",
        "definition_graph",
        "oanc_tags",
        "open_docs",
    ],
)
def test_the_card_describes_the_shipped_files(folder):
    shipped = shipped_directory("data") / folder
    card = (shipped / "README.md").read_text(encoding="utf-8")
    for line in describe_files(shipped).splitlines():
        assert line in card, f"{shipped}/README.md lacks: {line}"


def test_all_shipped_data_stays_under_15_megabytes():
    files = (path for path in shipped_directory("data").rglob("*") if path.is_file())
    assert sum(file.stat().st_size for file in files if file.suffix != ".pyc") < 15e6


def test_an_installed_package_has_all_data_and_none_of_the_scripts_that_prepare_it():
    data = shipped_directory("data")
    pyproject = tomllib.loads((data.parent / "pyproject.toml").read_text())
    included = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {name for name in included if name.startswith("data")} == {
        f"data/{entry.name}" for entry in data.iterdir() if entry.name not in ("prepare", "__pycache__")
    }
    assert all(place == f"t5x_like/_installed/{name}" for name, place in included.items())
