import math

import pytest

from t5x_like.text.metrics.averages import over_runs


def test_runs_have_a_mean_and_a_deviation():
    result = over_runs([{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": math.nan}, {"a": 2.0, "b": 1.0}])
    assert result == {"a": (2.0, 1.0, 3)}
    assert over_runs([{"a": 4.0}])["a"].deviation is None
    with pytest.raises(ValueError, match="no runs"):
        over_runs([])
