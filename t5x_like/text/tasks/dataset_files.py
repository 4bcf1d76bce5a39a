"""Arrow files of the Hugging Face library ``datasets``, as files of a task."""

from typing import Any

from t5x_like.io.files import PathLike, as_path


def dataset_files(dataset: PathLike, split: str, *, name: str | None = None) -> tuple[str, ...]:
    """Return the Arrow files of one split of a dataset, for ``files`` of a task.

    >>> TextTask(files={"train": dataset_files("stanfordnlp/sst2", "train")}, ...)

    Args:
      dataset: Directory that ``save_to_disk`` wrote, or a name on the Hugging Face Hub. Data in the library's cache are
        used without a network.
      split: Split to read; a directory of a single ``Dataset`` has one, ``train``.
      name: Configuration of a dataset on the Hub that has several.

    Raises:
      ValueError: the package datasets is missing, there is no such dataset or split, or its rows are a selection that
        no file holds.
    """
    try:
        # It is an extra, and takes seconds.
        import datasets
    except ModuleNotFoundError as error:
        raise ValueError(
            f"to read {dataset} the package datasets is needed: pip install 't5x-like[datasets]'"
        ) from error
    try:
        if as_path(dataset).is_dir():
            loaded: Any = datasets.load_from_disk(str(dataset))
        else:
            loaded = datasets.load_dataset(str(dataset), name)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{dataset} is no dataset that can be read: {reason}") from error
    splits = {"train": loaded} if isinstance(loaded, datasets.Dataset) else loaded
    if split not in splits:
        raise ValueError(f"{dataset} has no split {split!r}; there are {', '.join(splits)}")
    files = tuple(str(file["filename"]) for file in splits[split].cache_files)
    if not files:
        raise ValueError(f"{dataset} is in memory; write it with save_to_disk and give that directory")
    return files
