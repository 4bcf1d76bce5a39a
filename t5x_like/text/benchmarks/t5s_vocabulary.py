"""T5's own vocabulary, for scripts of seqio's that name none."""

import logging
from typing import Any

import seqio

from t5x_like.io.paths import find_file

_log = logging.getLogger(__name__)

SHIPPED = "data/vocabulary/spiece.model"
_out_of_reach: set[str] = (
    set()
)  # what was tried in vain: each task has a vocabulary of its own, of the same file


class T5sVocabulary(seqio.SentencePieceVocabulary):
    """A SentencePiece model that is read when it is first used; where it is out of reach, the shipped one instead.

    So tasks can be looked at and tried without a network. That is said as it happens: with a vocabulary other than
    theirs, trained weights are of no use. Training by recipe never goes this way: it refuses.
    """

    def _model_context(self) -> Any:
        if self._model is None:
            path = str(self._sentencepiece_model_file)
            try:
                if path not in _out_of_reach:
                    return super()._model_context()
            except Exception as error:  # each kind of bucket has errors of its own
                _out_of_reach.add(path)
                _log.warning(
                    "T5's vocabulary %s can't be reached (%s). The small one that is shipped stands in: good for "
                    "trying tasks out, useless with T5's weights. Copy T5's here and name it: "
                    "export T5X_LIKE_VOCABULARY=path/to/spiece.model",
                    path,
                    (str(error).strip() or type(error).__name__).splitlines()[0],
                )
            self._sentencepiece_model_file = find_file(SHIPPED)
        return super()._model_context()
