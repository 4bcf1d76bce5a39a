"""ELMo's published weights: ``options.json`` and an HDF5 file, as bilm-tf writes and AllenNLP reads them.

https://github.com/allenai/bilm-tf
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.ancestors.layers.character_cnn import CHARACTERS_PER_WORD, NUM_CHARACTERS
from t5x_like.ancestors.word_vectors.character_table import CHARACTER_TABLE, character_table
from t5x_like.ancestors.zoo.elmo import ELMO, ElmoConfig, bilm_weights
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.model import parameters
from t5x_like.model.lazy_array import put_on_devices
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.weights import WeightSource, read_weights
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained.further_formats import FurtherFormat
from t5x_like.text.vocabularies.opening import open_tokenizer, vocabulary_files
from t5x_like.text.vocabularies.tokenizer import Tokenizer, pad_size

_OPTIONS, _WEIGHTS = "options.json", "*.hdf5"


class BilmFormat(FurtherFormat):
    """ELMo's weights as bilm-tf writes them. They have no softmax, and read the characters of any words."""

    def is_in(self, directory: PathLike) -> bool:
        """Return whether a directory holds ELMo's weights."""
        path = as_path(directory)
        return (path / _OPTIONS).exists() and any(path.glob(_WEIGHTS))

    def advice(self, directory: PathLike) -> str:
        """Return a sentence that says how these weights become a run."""
        return (
            f"{directory} holds ELMo's weights, which read the characters of any vocabulary; make a run of both first: "
            f"t5x-like convert --from {directory} --to DIR --vocabulary WORDS"
        )

    def read(
        self,
        directory: PathLike,
        *,
        vocabulary: str = "",
        num_sentinels: int | None = None,
        mesh: Mesh | None = None,
    ) -> tuple[ElmoConfig, parameters.Parameters]:
        """Return the model, and its weights with the characters of the words.

        Args:
          directory: Directory with ``options.json`` and one ``.hdf5`` file of any name.
          vocabulary: Vocabulary of whole words; the one in the directory if not given.
          num_sentinels: Sentinels of the vocabulary; if not given, as many as runs have.
          mesh: Devices to place the weights on; without one, the first device.

        Raises:
          ValueError: The options are of another model, the file has other weights, or there is no vocabulary of words.
        """
        tokenizer = _tokenizer_of(
            directory, vocabulary, ELMO.num_sentinels if num_sentinels is None else num_sentinels
        )
        config = bilm_config(directory, vocab_size=pad_size(tokenizer.vocab_size))
        _, shapes, axes = parameters.abstract(config)
        leaves = parameters.flatten(shapes if mesh is None else with_shardings(axes, shapes, mesh))

        def place(path: str, array: Any) -> jax.Array:
            return put_on_devices(array, leaves[path].sharding)

        published = {path: leaf for path, leaf in leaves.items() if path != CHARACTER_TABLE}
        params = _read(directory, config, parameters.unflatten(published), place)
        ids = place(CHARACTER_TABLE, character_table(tokenizer, config.vocab_size))
        return config, parameters.unflatten(parameters.flatten(params) | {CHARACTER_TABLE: ids})


FORMAT = BilmFormat()


def bilm_config(directory: PathLike, *, vocab_size: int) -> ElmoConfig:
    """Return the model that ``options.json`` describes, without softmax.

    Args:
      directory: Directory with the file.
      vocab_size: Number of ids, which the file doesn't determine.

    Raises:
      ValueError: A field is missing or has a value that we lack.
    """
    path = as_path(directory) / _OPTIONS
    with refusing_damage(path):
        options = read_json(path, dict)
        lstm, characters = options["lstm"], options["char_cnn"]
        _require(str(path), "lstm", lstm, use_skip_connections=(True,))
        _require(
            str(path),
            "char_cnn",
            characters,
            activation=("relu",),
            max_characters_per_token=(CHARACTERS_PER_WORD,),
            n_characters=(NUM_CHARACTERS, NUM_CHARACTERS - 1),  # in training the mask is not counted
        )
        return ElmoConfig(
            vocab_size=vocab_size,
            model_dim=lstm["projection_dim"],
            hidden_dim=lstm["dim"],
            num_layers=lstm["n_layers"],
            character_dim=characters["embedding"]["dim"],
            filters=tuple(map(tuple, characters["filters"])),
            num_highway_layers=characters.get("n_highway", 0),
            cell_clip=lstm.get("cell_clip"),
            projection_clip=lstm.get("proj_clip"),
            task="base",
        )


def _require(where: str, section: str, fields: Mapping[str, object], **allowed: tuple[object, ...]) -> None:
    for name, values in allowed.items():
        if fields.get(name) not in values:
            raise ValueError(
                f"{where}: {name} of {section} is {fields.get(name)!r}, and this model has "
                f"{' or '.join(map(repr, values))}"
            )


def _tokenizer_of(directory: PathLike, vocabulary: str, num_sentinels: int) -> Tokenizer:
    if not vocabulary and not vocabulary_files(directory):
        raise ValueError(
            f"{directory} has no vocabulary: ELMo's weights read the characters of any words. Learn one of your text "
            "with `t5x-like vocabulary learn --kind words`, and name it: vocabulary=PATH"
        )
    return open_tokenizer(vocabulary or directory, num_sentinels)


def _read(
    directory: PathLike,
    config: ElmoConfig,
    like: parameters.Parameters,
    place: Any,
) -> Parameters:
    """Read the weights of ``like`` from the directory's HDF5 file."""
    try:
        import h5py  # an extra
    except ImportError as error:
        raise ValueError(
            "ELMo's weights are HDF5 files, which h5py reads: pip install 't5x-like[elmo]'"
        ) from error
    files = sorted(as_path(directory).glob(_WEIGHTS))
    if len(files) != 1:
        raise ValueError(f"{directory} has {len(files)} files {_WEIGHTS}; give a directory with one")
    try:
        with h5py.File(str(files[0]), "r") as file:
            shapes: dict[str, tuple[int, ...]] = {}

            def note(name: str, item: object) -> None:
                if isinstance(item, h5py.Dataset):
                    shapes[name] = tuple(item.shape)

            file.visititems(note)
            source = WeightSource(str(files[0]), shapes, lambda name: np.asarray(file[name]))
            return read_weights(bilm_weights(config), like, source, place=place)
    except OSError as error:
        raise ValueError(f"{files[0]} can't be read as an HDF5 file: {error}; copy it again") from error
