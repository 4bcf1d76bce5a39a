"""The documentation's generated pages say what the code says, and its pictures are what the scripts draw."""

import json
import subprocess
import sys
from contextlib import nullcontext

import griffe
import pytest
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

import t5x_like
from docs.pictures.batch_flow import PARTS
from docs.pictures.packages import WORDS, layers
from docs.site import command_line, gin_macros, hooks, notebooks, python_api, recipes, results
from docs.site.docstrings import Docstrings, to_markdown
from docs.site.repository_files import LINK, RepositoryFiles
from t5x_like.cli.main import VERBS
from tests.references import ROOT


def test_every_recipe_is_in_the_index_with_command_and_hardware():
    index = recipes.pages()["recipes/index.md"]
    listed = [recipe for members in recipes.recipes().values() for recipe in members]
    assert len(listed) > 70
    for recipe in listed:
        assert f"`{recipe.path.name}`" in index
        assert "t5x-like" in recipe.command or recipe.path.stem in ("pretrain_xxl_pod",)
        assert recipe.summary
        assert recipe.path.stem == "report" or recipe.fields["Hardware"], recipe.path


def test_a_header_is_read_field_by_field(tmp_path):
    path = tmp_path / "one.gin"
    path.write_text(
        "# SST-2 with BERT: batches of 32. Three epochs.\n#\n"
        "#   t5x-like train --gin_file=one.gin \\\n#     --set A=1\n#\n"
        "# Hardware: one GPU with 16 GB.\n# Hours: at most one on a\n# Cloud TPU.\n"
        "# Score to expect (one run): 93.5; large 94.9.\n# Paper: Devlin et al. 2019, https://arxiv.org/abs/1810.04805.\n"
        "A = 1  # not the header\n"
    )
    recipe = recipes.read_recipe(path)
    assert recipe.summary == "SST-2 with BERT: batches of 32"
    assert recipe.details == "Three epochs."
    assert recipe.command == "t5x-like train --gin_file=one.gin \\\n  --set A=1"
    assert recipe.fields == {
        "Hardware": "one GPU with 16 GB",
        "Hours": "at most one on a Cloud TPU",
        "Score to expect": "93.5; large 94.9 (one run)",
        "Paper": "Devlin et al. 2019, https://arxiv.org/abs/1810.04805",
    }


def test_every_command_and_its_flags_are_on_the_page():
    page = command_line.pages()["reference/command_line.md"]
    for verb in VERBS:
        assert f"\n## {verb}\n" in page
    assert "| `--gin_file FILE` |" in page
    assert "### submission check" in page
    assert "### checkpoint prune" in page
    assert "### runs compare" in page
    assert "| `--model_dir DIR` |" in page


def test_macros_have_their_defaults_and_parameters():
    page = gin_macros.pages()["reference/gin_macros.md"]
    (line,) = [line for line in page.splitlines() if line.startswith("| `BATCH_SIZE` |")]
    assert "`128` in finetune, pretrain" in line
    assert "sets `loader_config.LoaderConfig.batch_size`" in line
    (line,) = [line for line in page.splitlines() if line.startswith("| `MODEL_DIR` |")]
    assert "required" in line


def test_an_attributes_documentation_ends_with_it():
    text = gin_macros.attribute_documentation("loader_config.LoaderConfig.batch_size")
    assert text
    assert "inputs_length" not in text


def test_every_public_name_and_package_has_its_place():
    pages = python_api.pages()
    shown = [name for names in python_api.public_names().values() for name in names]
    assert sorted(shown) == sorted(name for name in t5x_like.__all__ if not name.startswith("__"))
    for name in shown:
        assert f"::: t5x_like.{name}\n" in pages["reference/python/index.md"]
    assert "::: t5x_like.model.layers.masks\n" in pages["reference/python/model_layers.md"]
    assert "::: t5x_like.training.experiment\n" in pages["reference/python/training.md"]


def test_every_results_file_is_named_and_numbers_are_the_files():
    page = results.pages()["results.md"]
    for file in results.RESULTS.glob("*.json"):
        assert f"`{file.name}`" in page
    assert "| sst2/seed 0 | accuracy 88.88 |" in page
    assert "| span corruption | 34,151 | 12.03 |" in page


def test_the_table_of_the_real_command_is_that_of_its_results():
    section = results.pages()["results.md"].partition("## The real command\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 4
    assert "\n".join(table) in (ROOT / "docs/performance.md").read_text(encoding="utf-8")


def test_a_notebooks_outputs_are_on_its_page(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "source": ["1 + 1"],
            "outputs": [
                {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
                {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mred\x1b[0m\n"]},
            ],
        },
    ]
    file = tmp_path / "one.ipynb"
    file.write_text(json.dumps({"cells": cells}))
    page = notebooks.markdown_of(file)
    assert page.startswith("# Title\nwords\n\n```python\n1 + 1\n```")
    assert "````text\n2\n````" in page
    assert "````text\nred\n````" in page


def test_a_link_to_code_becomes_a_link_to_a_page_of_the_site():
    files = RepositoryFiles()
    markdown = "[a](../t5x_like/batch.py), [b](guides/models.md#weights-in), [c](https://a.b), [d](../gin)"
    assert files.rewrite(markdown, "page.md") == (
        "[a](files/t5x_like/batch.py.md), [b](guides/models.md#weights-in), [c](https://a.b), [d](files/gin.md)"
    )
    assert "class Batch(NamedTuple)" in files.pages["files/t5x_like/batch.py.md"]


def test_doctests_become_blocks_of_code():
    docstring = "Words.\n\n    >>> f([1])[0]['a']  # doctest: +SKIP\n    1\n\nMore words."
    assert to_markdown(docstring) == (
        "Words.\n\n    ```pycon\n    >>> f([1])[0]['a']\n    1\n    ```\n\nMore words."
    )
    assert to_markdown("see :func:`a.b`") == "see `a.b`"


def test_a_configuration_class_is_shown_with_its_fields():
    extensions = griffe.load_extensions(Docstrings)
    module = griffe.load("t5x_like.optimizers.optimizers", search_paths=[str(ROOT)], extensions=extensions)
    assert "learning_rate" in [parameter.name for parameter in module["AdamW"].parameters]


def test_no_document_links_to_nothing():
    """mkdocs checks pages; this checks what leaves them, README and CONTRIBUTING included."""
    documents = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    generated = set(hooks.generated_pages())
    for document in documents:
        for link in LINK.finditer(document.read_text(encoding="utf-8")):
            target = (document.parent / link[1]).resolve()
            page = (
                target.relative_to(ROOT / "docs").as_posix() if target.is_relative_to(ROOT / "docs") else ""
            )
            assert target.exists() or page in generated, f"{document}: {link[1]}"


@pytest.mark.parametrize(
    ("name", "content", "is_fetched"),
    [
        ("a.html", '<script src="https://unpkg.com/mermaid"></script>', True),
        ("a.html", '<link rel="stylesheet" href="https://fonts.googleapis.com/css?family=Roboto">', True),
        ("a.css", "body { background: url(//cdn.example/a.png) }", True),
        ("a.html", '<a href="https://arxiv.org/abs/1910.10683">paper</a>', False),
        (
            "a.html",
            '<img src="../pictures/attention_light.svg"><script src="assets/bundle.js"></script>',
            False,
        ),
    ],
)
def test_a_page_that_fetches_from_a_server_is_refused(tmp_path, name, content, is_fetched):
    (tmp_path / name).write_text(content)
    config = MkDocsConfig()
    config.site_dir = str(tmp_path)
    with pytest.raises(PluginError, match="fetch from a server") if is_fetched else nullcontext():
        hooks.on_post_build(config)


def test_the_picture_of_packages_has_all_of_them():
    drawn = {name for names in layers() for name in names}
    there = {path.name for path in (ROOT / "t5x_like").iterdir() if (path / "__init__.py").is_file()}
    assert there <= drawn
    assert all((ROOT / "t5x_like" / f"{name}.py").is_file() for name in drawn - there)
    assert drawn == set(WORDS)


def test_the_parts_of_the_journey_exist():
    for part in PARTS:
        assert (ROOT / "t5x_like" / part.file).is_file(), part.file


@pytest.mark.parametrize(
    "names",
    [
        ("sharding", "packages", "batch_flow", "objectives", "learning_curve"),
        pytest.param(("attention",), marks=pytest.mark.slow),
    ],
)
def test_pictures_are_what_the_scripts_draw(names):
    done = subprocess.run(
        [sys.executable, "-m", "docs.pictures.make", "--check", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
