"""Real rows in their official files: as many as are published, each of which can be worded."""

import pytest

from t5x_like.text.benchmarks import catalogue
from tests.references import SHARED

DATA = SHARED / "data"
# SST-2's training rows and WiC's are not all there.
COUNTS = {
    "glue_cola_v002": {"train": 8_551, "validation": 1_043, "test": 1_063},
    "glue_sst2_v002": {"train": 60_614, "validation": 872},
    "glue_rte_v002": {"train": 2_490, "validation": 277},
    "glue_wnli_v002": {"train": 635, "validation": 71, "test": 146},
    "glue_stsb_v002": {"train": 5_749, "validation": 1_500},
    "super_glue_boolq_v102": {"validation": 3_270},
    "super_glue_cb_v102": {"validation": 56},
    "super_glue_rte_v102": {"validation": 277},
    "super_glue_wsc_v102_simple_eval": {"validation": 104},
    "super_glue_wsc_v102_marked_spans": {"validation": 104},
    "super_glue_wic_v102": {"validation": 500},
    "glue_wnli_v002_simple_eval": {"validation": 71, "test": 146},
}


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is absent")
@pytest.mark.parametrize("name", sorted(COUNTS))
def test_every_real_row_is_worded(name: str) -> None:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(DATA))
    for split, count in COUNTS[name].items():
        formatted = list(task.read(split))
        assert len(formatted) == count
        if task.answers:
            unlabeled = {"<unk>"} if split == "test" else set()
            assert {each.targets for each in formatted} == (unlabeled or set(task.answers))
