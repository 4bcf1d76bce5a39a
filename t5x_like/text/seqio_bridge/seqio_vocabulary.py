"""Vocabulary of a run as a seqio vocabulary."""

import os
from typing import TYPE_CHECKING

from t5x_like.text.seqio_extra import import_of_extra
from t5x_like.text.vocabularies.opening import BYTES, open_tokenizer

if TYPE_CHECKING:
    import seqio

__all__ = ["BYTES", "end_of", "first_sentinel", "load_vocabulary"]


def load_vocabulary(
    path_or_name: str | os.PathLike[str], *, num_sentinels: int = 100, lower_case: bool | None = None
) -> "seqio.Vocabulary":
    """Load a vocabulary by path or name.

    Accepted are:

    - ``bytes``: byte ``b`` is id ``b + 3``, as in ByT5 (Xue et al. 2022, https://arxiv.org/abs/2105.13626);
    - a SentencePiece ``.model``, with T5's special ids or others';
    - Hugging Face's ``tokenizer.json``; BERT's ``vocab.txt``; GPT's ``vocab.json`` with its ``merges.txt``; a
      directory with one of these;
    - a tiktoken name, such as ``cl100k_base``, or a ``.tiktoken`` file;
    - the words or characters that ``t5x-like vocabulary learn`` wrote.

    Special ids are the vocabulary's own; a ``tokenizer_config.json`` next to the file is read. Sentinels are the
    highest ids, counting down, so ``<extra_id_0>`` is ``vocab_size - 1``. A vocabulary that already ends in sentinels
    (mT5's) gets no others.

    Text is read literally: ``<extra_id_0>``, ``[MASK]`` or ``<|endoftext|>`` in a text becomes ordinary pieces, never a
    special id, unlike in seqio and transformers. Decoding a sentinel id writes ``<extra_id_k>``.

    Args:
      path_or_name: File, directory or name.
      num_sentinels: Ids to add at the end.
      lower_case: Overrides the lower-casing that a ``vocab.txt`` or ``merges.txt`` implies.

    Raises:
      ValueError: No such file, another kind of file, or a damaged one; or seqio isn't installed.
    """
    import_of_extra("seqio", needed_by="a vocabulary for seqio")
    from t5x_like.text.seqio_bridge.literal_vocabulary import LiteralVocabulary  # imports TensorFlow

    return LiteralVocabulary(open_tokenizer(path_or_name, num_sentinels, lower_case=lower_case))


def first_sentinel(vocabulary: "seqio.Vocabulary") -> int:
    """Return the id of ``<extra_id_0>``; the k-th sentinel is ``k`` below it."""
    return vocabulary.vocab_size - 1


def end_of(vocabulary: "seqio.Vocabulary") -> int:
    """Return the id that ends a sequence.

    Raises:
      ValueError: The vocabulary has none.
    """
    if vocabulary.eos_id is None:
        raise ValueError(f"{vocabulary} has no end of sequence, which targets need")
    return vocabulary.eos_id
