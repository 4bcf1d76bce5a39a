"""The same cache by Ray, which is an optional extra."""

import numpy as np
import pytest

from t5x_like.io.engines import cluster_engine
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.cache.writing import cache_split

cluster_utils = pytest.importorskip("ray.cluster_utils")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray's own
def test_ray_makes_the_same_examples_in_the_same_order(tmp_path, corpus_task, texts):
    for index in range(3):
        (tmp_path / f"{index}.txt").write_text("\n".join(texts[100 * index : 100 * index + 100]) + "\n")
    task = corpus_task(files={"train": str(tmp_path / "?.txt")})
    cache_split(task, "train", str(tmp_path / "here"))
    store = 80 * 2**20
    cluster = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False, "object_store_memory": store},
    )
    try:
        engine = cluster_engine("ray", ray_address=cluster.address)
        cache_split(task, "train", str(tmp_path / "ray"), engine=engine)
    finally:
        cluster.shutdown()
    here, ray = (CachedExamples.open(tmp_path / name / "letters" / "train") for name in ("here", "ray"))
    positions = np.arange(300)
    assert [e["tokens"].tolist() for e in here.read(positions)] == [
        e["tokens"].tolist() for e in ray.read(positions)
    ]
    assert [shard.examples for shard in ray.manifest.shards] == [100, 100, 100]
