"""The guide's benchmark works as it is written there."""

import re

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import shipped_directory
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.keyed_template import KeyedTemplate
from t5x_like.text.benchmarks.keyed_wording import KeyedWording
from tests.references import ROOT

GUIDE = ROOT / "docs/guides/benchmarks.md"
VOCABULARY = str(shipped_directory("data") / "vocabulary" / "spiece.model")


def test_the_guide_lists_every_family():
    table = GUIDE.read_text().partition("| family |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(catalogue.MODULES)


def test_the_guides_own_benchmark_is_read_formatted_and_shown(tmp_path, monkeypatch, capsys):
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S) if "REVIEWS" in block
    )
    (tmp_path / "benchmark_of_the_guide.py").write_text(code)
    (tmp_path / "data/reviews").mkdir(parents=True)
    for name in ("train", "dev"):
        (tmp_path / f"data/reviews/{name}.tsv").write_text('review\tlabel\n"Fine.\tgood\nSad.\t0\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("T5X_LIKE_VOCABULARY", VOCABULARY)
    assert main(["tasks", "show", "reviews_v001", "--module", "benchmark_of_the_guide"]) == 0
    shown = capsys.readouterr().out
    assert "splits      train 2, validation 2" in shown
    assert re.search(r'inputs +reviews text: "Fine\.\ntargets +good', shown)
    namespace: dict = {}
    exec(code.rpartition("registry.register(")[0], namespace)
    (example,) = namespace["REVIEWS"].examples
    assert namespace["REVIEWS"].word(example.row) == list(example.formatted)
    with pytest.raises(ValueError, match="the label 2 is outside the set: 0 bad, 1 good"):
        namespace["REVIEWS"].word(example.row | {"label": 2})


def test_modules_of_users_may_import_the_template_by_its_earlier_name():
    assert KeyedWording is KeyedTemplate
