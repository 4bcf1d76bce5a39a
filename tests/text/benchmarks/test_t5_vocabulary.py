import logging

import pytest

from t5x_like.io.paths import find_file
from t5x_like.text.benchmarks.shipped_vocabulary import SHIPPED_VOCABULARY


@pytest.mark.seqio
def test_out_of_reach_the_shipped_vocabulary_is_used_with_a_warning(caplog: pytest.LogCaptureFixture):
    from t5x_like.text.seqio_bridge.seqio_tasks import T5Vocabulary

    with caplog.at_level(logging.WARNING):
        vocabulary = T5Vocabulary("nowhere/spiece.model", 100)
        assert not caplog.messages  # nothing is read before it is needed
        ids = vocabulary.encode("the ark")
        assert vocabulary.decode(ids) == "the ark"
    (message,) = caplog.messages
    assert "nowhere/spiece.model can't be reached" in message
    assert "export T5X_LIKE_VOCABULARY=" in message
    assert T5Vocabulary("nowhere/spiece.model", 100).encode("the ark") == ids  # of another task; said once
    near = T5Vocabulary(find_file(SHIPPED_VOCABULARY), 100)
    assert near.encode("the ark") == ids
    assert len(caplog.messages) == 1
