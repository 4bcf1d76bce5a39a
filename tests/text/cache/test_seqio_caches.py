"""Caches of tasks registered with seqio."""

import numpy as np
import pytest
import seqio
import tensorflow as tf

from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.seqio_bridge.cache_tasks import cache_seqio_split
from t5x_like.text.seqio_bridge.evaluation_rows import load_seqio_rows
from t5x_like.text.seqio_bridge.open_seqio_tasks import open_seqio_task
from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary
from t5x_like.text.seqio_bridge.task_fingerprint import seqio_fingerprint

VOCABULARY = load_vocabulary("bytes")
FEATURES = {key: seqio.Feature(VOCABULARY) for key in ("inputs", "targets")}


def lines(split, shuffle_files=False, seed=None):
    return tf.data.Dataset.from_tensor_slices([f"line {index} of {split}" for index in range(40)])


def as_pairs(dataset):
    return dataset.map(lambda line: {"inputs": line, "targets": tf.strings.upper(line), "note": line})


def task(name, *steps, source=None, features=None):
    return seqio.Task(
        name,
        source=source or seqio.FunctionDataSource(lines, ["train"]),
        preprocessors=steps,
        output_features=features or FEATURES,
    )


BEFORE = (as_pairs, seqio.preprocessors.tokenize)
AFTER = (seqio.preprocessors.append_eos_after_trim,)


def cached(task, tmp_path, **settings):
    cache_seqio_split(task, "train", str(tmp_path), **settings)
    return CachedExamples.open(tmp_path / task.name / "train")


@pytest.fixture
def registered(monkeypatch):
    """Registers a task for one test."""

    def add(task):
        monkeypatch.setitem(seqio.TaskRegistry._REGISTRY, task.name, task)
        return task

    return add


def test_steps_before_the_placeholder_are_cached(tmp_path, registered):
    result = cached(registered(task("halved", *BEFORE, seqio.CacheDatasetPlaceholder(), *AFTER)), tmp_path)
    (example,) = result.read(np.array([7]))
    assert example["targets"].tolist() == VOCABULARY.encode("LINE 7 OF TRAIN")
    assert sorted(example) == ["inputs", "targets"]
    assert result.manifest.contents.remaining_steps == ("append_eos_after_trim",)


def test_without_a_placeholder_all_steps_are_cached(tmp_path, registered):
    result = cached(registered(task("whole", *BEFORE, *AFTER)), tmp_path)
    assert result.read(np.array([7]))[0]["targets"].tolist() == [*VOCABULARY.encode("LINE 7 OF TRAIN"), 1]
    assert result.manifest.contents.remaining_steps == ()


def test_files_of_a_source_become_shards_of_the_cache_in_their_order(tmp_path, registered):
    for index in range(3):
        (tmp_path / f"{index}.txt").write_text("".join(f"{index}{row}\n" for row in range(5)))
    source = seqio.TextLineDataSource({"train": str(tmp_path / "?.txt")})
    steps = (as_pairs, seqio.preprocessors.tokenize, seqio.CacheDatasetPlaceholder())
    result = cached(registered(task("files", *steps, source=source)), tmp_path)
    assert [shard.examples for shard in result.manifest.shards] == [5, 5, 5]
    first = [
        bytes((example["inputs"] - 3).astype(np.uint8)) for example in result.read(np.array([0, 4, 5, 14]))
    ]
    assert first == [b"00", b"04", b"10", b"24"]


def test_a_source_of_one_file_is_split_into_the_requested_shards(tmp_path, registered):
    result = cached(registered(task("dealt", *BEFORE, *AFTER)), tmp_path, num_shards=4)
    targets = {VOCABULARY.decode(example["targets"]) for example in result.read(np.arange(40))}
    assert [shard.examples for shard in result.manifest.shards] == [10] * 4
    assert targets == {f"LINE {index} OF TRAIN" for index in range(40)}


@pytest.mark.filterwarnings("ignore:label.. is deprecated:DeprecationWarning")  # tensorflow_datasets' own
def test_a_tfds_data_set_is_cached(tmp_path, registered):
    import tensorflow_datasets as tfds

    folder = tmp_path / "data" / "rhymes" / "1.0.0"
    folder.mkdir(parents=True)
    features = tfds.features.FeaturesDict({"text": tf.string})
    for shard in range(2):
        with tf.io.TFRecordWriter(str(folder / f"rhymes-train.tfrecord-0000{shard}-of-00002")) as writer:
            for index in range(10 * shard, 10 * shard + 10):
                writer.write(features.serialize_example({"text": f"rhyme {index}"}))
    template = tfds.core.ShardedFileTemplate(
        dataset_name="rhymes", data_dir=folder, split="train", filetype_suffix="tfrecord"
    )
    split = tfds.core.SplitInfo(name="train", shard_lengths=[10, 10], num_bytes=0, filename_template=template)
    tfds.folder_dataset.write_metadata(data_dir=folder, features=features, split_infos=[split])
    source = seqio.TfdsDataSource(
        "rhymes:1.0.0", tfds_data_dir=str(tmp_path / "data"), splits={"train": "train"}
    )

    def read(dataset):
        return dataset.map(lambda row: {"inputs": row["text"], "targets": row["text"]})

    steps = (read, seqio.preprocessors.tokenize, seqio.CacheDatasetPlaceholder(), *AFTER)
    result = cached(registered(task("rhymes_task", *steps, source=source)), tmp_path)
    texts = [VOCABULARY.decode(example["inputs"]) for example in result.read(np.arange(20))]
    assert texts == [f"rhyme {index}" for index in range(20)]
    assert [shard.examples for shard in result.manifest.shards] == [10, 10]
    assert result.manifest.contents.fingerprint["source"] == "TfdsDataSource rhymes:1.0.0, train"


def test_another_pipeline_is_refused_by_the_step_that_differs(tmp_path, registered):
    def shouting(mark):
        return lambda dataset: dataset.map(lambda row: {**row, "targets": row["targets"] + mark})

    def with_mark(mark):
        return task("marked", as_pairs, shouting(mark), seqio.preprocessors.tokenize)

    result = cached(registered(with_mark("!")), tmp_path)
    same, other = (seqio_fingerprint(with_mark(mark), "train") for mark in "!?")
    CachedExamples.open(result.directory, task_fingerprint=same)
    with pytest.raises(ValueError, match=r"step 1: the cache has .*'!'.*, you ask for .*'[?]'") as refused:
        CachedExamples.open(result.directory, task_fingerprint=other)
    assert "step 0" not in str(refused.value)


def test_steps_after_the_placeholder_may_change(tmp_path, registered):
    result = cached(registered(task("after", *BEFORE, seqio.CacheDatasetPlaceholder(), *AFTER)), tmp_path)
    other = task("after", *BEFORE, seqio.CacheDatasetPlaceholder())
    CachedExamples.open(result.directory, task_fingerprint=seqio_fingerprint(other, "train"))


def test_steps_that_need_lengths_are_refused_with_the_remedy(tmp_path, registered):
    def cut(dataset, sequence_length):
        return dataset.map(lambda row: {**row, "inputs": row["inputs"][: sequence_length["inputs"]]})

    with pytest.raises(
        ValueError, match=r"fail without sequence lengths .*Put seqio\.CacheDatasetPlaceholder"
    ):
        cached(registered(task("cutting", *BEFORE, cut)), tmp_path)


def test_steps_that_give_no_feature_are_refused(tmp_path, registered):
    features = {"targets": seqio.Feature(VOCABULARY)}
    steps = (lambda dataset: dataset.map(lambda line: {"text": line}), seqio.CacheDatasetPlaceholder())
    early = registered(task("early", *steps, features=features))
    with pytest.raises(ValueError, match="give text, none of the task's features targets; tokenize before"):
        cached(early, tmp_path)


MODULE = """
import seqio
from t5x_like.text.seqio_bridge.evaluation_rows import load_seqio_rows
from t5x_like.text.seqio_bridge.open_seqio_tasks import open_seqio_task
from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary
features = {key: seqio.Feature(load_vocabulary("bytes")) for key in ("inputs", "targets")}
seqio.TaskRegistry.add(
    "from_a_module",
    source=seqio.TextLineDataSource({"train": "?.txt"}),
    preprocessors=[
        lambda dataset: dataset.map(lambda line: {"inputs": line, "targets": line}),
        seqio.preprocessors.tokenize,
    ],
    output_features=features,
)
"""


@pytest.mark.slow  # each process imports TensorFlow
def test_processes_that_import_the_users_module_write_the_same_bytes_as_this_one(tmp_path, monkeypatch):
    for index in range(3):
        (tmp_path / f"{index}.txt").write_text("".join(f"{index}{row}\n" for row in range(5)))
    (tmp_path / "users_own_tasks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    registration.import_modules(["users_own_tasks"])
    result = registration.get_task("from_a_module")
    for processes in (1, 2):
        cache_seqio_split(
            result, "train", f"by_{processes}", num_processes=processes, modules=["users_own_tasks"]
        )
    one, two = (tmp_path / f"by_{processes}" / "from_a_module" / "train" for processes in (1, 2))
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in two.iterdir())
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in names)


@pytest.mark.parametrize("wrong", [-1, 300, 70_000])
def test_ids_that_the_vocabulary_lacks_are_refused_in_caches_batches_and_evaluation(
    tmp_path, registered, wrong
):
    def rows(split, shuffle_files=False, seed=None):
        pairs = {"inputs": [[5, 6], [7, 8]], "targets": [[5, 6], [7, wrong]]}
        return tf.data.Dataset.from_tensor_slices(pairs)

    features = {key: seqio.Feature(seqio.PassThroughVocabulary(300)) for key in ("inputs", "targets")}
    source = seqio.FunctionDataSource(rows, ["train"])
    made = registered(task(f"foreign_{abs(wrong)}", source=source, features=features))
    message = f"feature 'targets' of example 2 holds {wrong}; its vocabulary has the ids 0 … 299"
    with pytest.raises(ValueError, match=message):
        cached(made, tmp_path)
    with pytest.raises(ValueError, match=message):
        open_seqio_task(
            made, LoaderConfig(mixture=made.name, inputs_length=4, targets_length=4, batch_size=1)
        )
    with pytest.raises(ValueError, match=message):
        load_seqio_rows(made.name, "train", limit=None, inputs_length=4, targets_length=4)
