"""Every model size in gin/ builds, with the number of parameters that its header promises."""

import re
from pathlib import Path

import pytest

from t5x_like.gin_config.configuration import load
from t5x_like.io.files import shipped_directory
from t5x_like.model.parameters import abstract, count
from t5x_like.model.zoo.xlnet import XLNetConfig
from tests.recipes.built_recipes import config_class, with_included
from tests.slow_cases import slow_except

SIZES = sorted((shipped_directory("gin") / "models").glob("*/*.gin"))
FIRST_SIZES = {file.parent: file for file in reversed(SIZES)}.values()  # one of each architecture
MACROS = ["COMPUTE_DTYPE='bfloat16'", "REMAT='full'"]


@pytest.mark.parametrize(
    "file", slow_except(SIZES, FIRST_SIZES), ids=lambda file: f"{file.parent.name}/{file.stem}"
)
def test_a_size_builds_with_the_parameters_its_header_promises(file: Path) -> None:
    header = file.read_text().splitlines()[0]
    num_ids = re.findall(r"([\d,]+) ids", header)[0].replace(",", "")
    promised, unit = re.findall(r"([\d.]+) (million|billion) parameters", header)[0]
    text = with_included(file)
    macros = [macro for macro in MACROS if f"%{macro.partition('=')[0]}" in text]  # LSTMs have no remat
    config = load([str(file)], [*macros, "VOCAB_SIZE=%PUBLISHED_VOCAB"], roots=[config_class(file)]).value
    assert config.vocab_size == int(num_ids)
    num_parameters = count(abstract(config)[1])
    shown = num_parameters / {"million": 1e6, "billion": 1e9}[unit]
    assert f"{shown:.{len(promised.partition('.')[2])}f}" == promised


def test_all_published_sizes_are_there() -> None:
    names = {f"{file.parent.name}/{file.stem}" for file in SIZES if file.parent.name.startswith("t5_1")}
    published = ("small", "base", "large", "xl", "xxl")
    assert names == {f"t5_1_{minor}/{size}" for minor in (0, 1) for size in published} | {"t5_1_1/tiny"}


def test_xlnet_keeps_a_memory_if_a_run_asks_for_one() -> None:
    file = shipped_directory("gin") / "models/xlnet/base.gin"
    macros = [*MACROS, "VOCAB_SIZE=32000"]
    config = load([str(file)], macros, roots=[XLNetConfig]).value
    assert (config.memory_length, config.reuse_length) == (None, None)
    config = load([str(file)], [*macros, "MEMORY_LENGTH=384", "REUSE_LENGTH=256"], roots=[XLNetConfig]).value
    assert (config.memory_length, config.reuse_length) == (384, 256)
