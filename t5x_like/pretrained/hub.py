"""Models of the Hugging Face Hub by their names, from the local cache or the network."""

import re

from t5x_like.io.files import PathLike, as_path

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Everything that we read of a repository: configuration, safetensors, and all kinds of vocabularies.
_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.tiktoken")


def local_directory(
    name: PathLike, *, revision: str | None = None, cache_dir: PathLike | None = None
) -> PathLike:
    """Return the directory of a model that is named as on the Hub, ``google/flan-t5-small``; a path as it is.

    Files in the cache are used without a network; what is missing there is downloaded.

    Args:
      name: Path of a directory, or the name of a repository if there is no such path.
      revision: Branch, tag or commit of the repository; its main branch if not given.
      cache_dir: Directory of the cache; ``$HF_HUB_CACHE`` or ``~/.cache/huggingface/hub`` if not given.

    Raises:
      ValueError: There is neither such a path nor such a repository, or the package huggingface_hub is missing.
    """
    if not _HUB_NAME.fullmatch(str(name)) or as_path(name).exists():
        if revision is not None:
            raise ValueError(f"revision is for models of the Hub; {name} is a path, leave revision out")
        return name
    missing = f"there is no directory {name}"
    try:
        # It is an extra, and takes half a second.
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{missing}; to look for it on the Hugging Face Hub: pip install 't5x-like[hub]'"
        ) from error
    options = {
        "revision": revision,
        "cache_dir": None if cache_dir is None else str(cache_dir),
        "allow_patterns": list(_FILES),
    }
    try:
        return snapshot_download(str(name), local_files_only=True, **options)
    except LocalEntryNotFoundError:
        pass
    try:
        return snapshot_download(str(name), **options)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"{missing}, and the Hugging Face Hub gave no model of that name: {reason}"
        ) from error
