"""``t5x-like corpus`` as its users meet it."""

import json
import subprocess
import sys
import time

import pytest

from t5x_like.cli.main import main

RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.corpora.building import recipe
from t5x_like.corpora.rules import size_rules
recipe.CorpusRecipe:
    name = 'tiny'
    steps = (@size_rules.MaxLength(), @recipe.UniqueUrls())
    num_shards = %SHARDS
size_rules.MaxLength.chars = 8
SHARDS = 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.gin").write_text(RECIPE)
    pages = [{"url": f"http://a.org/{n // 2}", "text": f"page {n}" + "!" * (n > 7) * 9} for n in range(10)]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pages))
    return tmp_path


BUILD = ["corpus", "build", "--recipe=tiny.gin", "--input=pages.jsonl", "--output=out", "--workers=1"]


def test_a_table_tells_what_each_step_did(capsys):
    assert main(BUILD) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[:3] == [
        "step                  in  kept  dropped",
        "too-long-filter       10     8        2  too_long 2",
        "duplicate-url-filter   8     4        4  duplicate_url 4",
    ]
    assert table[3].startswith("out: of 10 pages 4 for train (0.0 MB in 1 shard) and 0 for validation")
    assert main(BUILD) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" – finished before, and whole")


def test_flags_overrule_the_recipe_and_inputs_add_up(folder, capsys):
    (folder / "more.jsonl").write_text('{"url": "http://b.org", "text": "more"}\n')
    assert main([*BUILD, "--input=more.jsonl", "--gin.SHARDS=3", "--gin.size_rules.MaxLength.chars=99"]) == 0
    assert "of 11 pages 6 for train (0.0 MB in 3 shards)" in capsys.readouterr().out


def test_the_same_on_beam(capsys):
    assert main([*BUILD, "--runner=DirectRunner", "--beam_option=--direct_num_workers=1"]) == 0
    assert "duplicate-url-filter   8     4        4  duplicate_url 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("--recipe=tony.gin", "there is no gin file 'tony.gin'"),
        ("--input=no*.jsonl", "no file matches 'no*.jsonl'"),
        ("--workers=0", "argument --workers: 0 is too small; give a whole number of at least 1"),
        ("--gin.SHARDS=0", "num_shards is 0; give 1 or more, or None"),
        ("--gin.recipe.CorpusRecipe.steps=('clean',)", "step 1 is 'clean'; a step is a rule for pages"),
        ("--gin.recipe.CorpusRecipe.shards=3", "no parameter"),
        ("--wrokers=3", "has no flag '--wrokers'\n  did you mean '--workers'?"),
    ],
)
def test_mistakes_end_with_a_message_alone(changed, message, capsys):
    assert main([*BUILD, changed]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed


def test_damage_met_by_a_worker_process_ends_with_a_message_alone(folder, capsys):
    (folder / "bad.jsonl").write_text('{"url"\n')
    assert main([*BUILD, "--input=bad.jsonl", "--workers=2"]) == 2
    printed = capsys.readouterr().err
    assert "bad.jsonl, line 1: invalid JSON" in printed
    assert "Traceback" not in printed


def test_a_library_that_workers_lack_is_named_with_its_extra(folder, capsys, monkeypatch):
    without = folder / "without"
    without.mkdir()
    (without / "zstandard.py").write_text("raise ModuleNotFoundError(\"No module named 'zstandard'\")\n")
    (folder / "more.jsonl").write_text('{"url": "http://b.org", "text": "more"}\n')
    monkeypatch.syspath_prepend(without)  # workers get this path; this process has imported the library
    assert main([*BUILD, "--input=more.jsonl", "--workers=2"]) == 2
    printed = capsys.readouterr().err
    assert "zstandard is needed, but No module named 'zstandard'; pip install 't5x-like[corpora]'" in printed
    assert "Traceback" not in printed


def test_what_is_required_is_asked_for(capsys):
    assert main(["corpus", "build", "--output=out"]) == 2
    assert "required: --input, --recipe" in capsys.readouterr().err


def test_another_recipe_in_the_folder_is_refused(capsys):
    assert main(BUILD) == 0
    capsys.readouterr()
    assert main([*BUILD, "--gin.size_rules.MaxLength.chars=99"]) == 2
    printed = capsys.readouterr().err
    assert (
        "step 1: it has MaxLength(chars=8), version 1, you ask for MaxLength(chars=99), version 1" in printed
    )


def test_help_loads_nothing_that_takes_long():
    program = (
        "import sys; from t5x_like.cli.main import main\n"
        "try: main(['corpus', 'build', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('jax', 'apache_beam', 'tensorflow', 'nltk') if name in sys.modules])"
    )
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert time.monotonic() - start < 20  # far below a second on a machine with nothing else to do
