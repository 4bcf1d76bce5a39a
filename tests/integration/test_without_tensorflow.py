"""A run that trains on, evaluates and answers our own tasks needs neither TensorFlow nor seqio."""

from pathlib import Path

import pytest

from t5x_like.evaluation.scores_file import read_predictions, read_scores
from tests.integration import tiny_run
from tests.without_seqio import run_without_seqio

PROGRAM = """
from pathlib import Path

import pytest

from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunPrediction
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.end_process import end_process
from tests.integration import tiny_run

directory = Path(sys.argv[1])
sizes = {"inputs_length": 32, "targets_length": 4, "batch_size": 16, "limit": 20}
generation = GenerationConfig(max_new_tokens=4)
evaluation = TaskEvaluation(mixture="capitals", generation=generation, **sizes)
finished = tiny_run.run(
    directory, model_dir=str(directory / "run"), total_steps=2, evaluations=(evaluation,)
)
assert finished.last["evaluation/capitals"]["accuracy"] >= 0.0
question = RunPrediction(
    checkpoint=str(directory / "run"), task="capitals", inputs_length=32, generation=generation
)
print([each.input for each in predict(question, ["one 1", "two 2"])])
end_process()
"""


@pytest.mark.slow
def test_a_run_with_evaluations_of_our_own_tasks_imports_no_tensorflow(tmp_path: Path) -> None:
    tiny_run.write_data(tmp_path)
    done = run_without_seqio(PROGRAM, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['capital: one 1', 'capital: two 2']"
    evaluation = tmp_path / "run/evaluations/step_2"
    assert read_scores(evaluation)["tasks"]["capitals"]["examples"] == 20
    assert len(read_predictions(evaluation, "capitals")) == 20
