"""One BERT learns two directions of writing with masked targets, is evaluated and answers lines."""

import json
import shutil
from typing import Any

import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunPrediction
from t5x_like.evaluation.suite import evaluate_suite
from t5x_like.evaluation.suite_settings import SuiteEvaluation
from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.inference.scorer import LikelihoodRequest
from t5x_like.io.files import read_json
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.masked_targets import MaskedTargets
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.evaluate import evaluate, own_evaluation
from t5x_like.training.losses import LossConfig
from t5x_like.training.run_config import Intervals
from t5x_like.training.run_record import read_recorded
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "<", ">"]
BERT = BertConfig(
    vocab_size=len(PIECES),
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    num_layers=2,
    max_position_embeddings=16,
    task="masked_lm",
)
STEPS = 200


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Letters of one alphabet become those of another, and back."""
    folder = tmp_path_factory.mktemp("writing")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    letters = dict(zip("abcd", "efgh", strict=True))
    rows = [(f"{one} {two}", f"{letters[one]} {letters[two]}") for one in "abcd" for two in "abcd"]
    lines = ["\t".join(row) for row in rows]
    (folder / "pairs.tsv").write_text("\n".join(["first\tsecond", *lines]) + "\n")
    settings: dict[str, Any] = {
        "vocabulary": str(folder / "vocab.txt"),
        "num_sentinels": 0,
        "files": dict.fromkeys(("train", "validation"), str(folder / "pairs.tsv")),
        "metrics": ("sequence_accuracy",),
    }
    there = TextTask(name="there", input_template="> {first}", target_template="{second}", **settings)
    back = TextTask(
        name="back",
        input_template="< {second}",
        target_template="{first}",
        labels=tuple(first for first, _ in rows),
        **settings,
    )
    both = Mixture(name="there_and_back", tasks=("there", "back"))
    run = experiment_of(
        model=BERT,
        train=LoaderConfig(
            mixture="there_and_back",
            batch_size=16,
            inputs_length=12,
            targets_length=4,
            layout="encoder",
            masked_targets=MaskedTargets(),
        ),
        tasks=(there, back, both),
        model_dir=str(folder / "run"),
        total_steps=STEPS,
        evaluations=(
            TaskEvaluation(
                mixture="there_and_back",
                inputs_length=7,
                targets_length=4,
                batch_size=16,
                generation=GenerationConfig(max_new_tokens=4),
            ),
        ),
        optimizer=AdamW(learning_rate=Constant(value=0.003)),
        loss=LossConfig(z_loss=0.0),
        intervals=Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=STEPS),
    )
    return folder / "run", train(run)


@pytest.mark.slow
def test_both_directions_are_learned_and_written(tuned):
    run, finished = tuned
    for task in ("there", "back"):
        assert finished.last[f"evaluation/{task}"]["sequence_accuracy"] > 90
    lines = (run / f"evaluations/step_{STEPS}/there/predictions.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["prediction"] == "e e"


@pytest.mark.slow
def test_a_run_answers_lines(tuned):
    run, _ = tuned
    prediction = RunPrediction(
        checkpoint=str(run),
        task="back",
        inputs_length=7,
        batch_size=8,
        generation=GenerationConfig(max_new_tokens=4),
    )
    assert [each.prediction for each in predict(prediction, ["e f", "h h"])] == ["a b", "d d"]


@pytest.mark.slow
def test_a_runs_own_evaluation_reads_sources_of_the_rows_length(tuned, tmp_path):
    run, _ = tuned
    own = own_evaluation(run)
    assert isinstance(own, TaskEvaluation)
    assert own.inputs_length == 7
    scores = evaluate(run, evaluations=(own,), batch_size=16, output_dir=tmp_path)
    assert scores["there"].scores["sequence_accuracy"] > 90


@pytest.mark.slow
def test_an_export_names_the_run_that_writes(tuned, tmp_path, capsys):
    run, _ = tuned
    export, table = str(tmp_path / "export"), tmp_path / "rows.csv"
    table.write_text("text\ne f\n")
    assert main(["convert", "--from", str(run), "--to", export, "--export", "hf"]) == 0
    assert main(["predict", export, "--input", str(table)]) == 2
    assert (
        "has lost its form of rows (LoaderConfig.masked_targets); predict with its run"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_commands_write_with_sources_of_the_rows_length(tuned, tmp_path, capsys):
    run, _ = tuned
    flags = ["--checkpoint", str(run), "--output_dir", str(tmp_path / "own"), "--split", "validation"]
    assert main(["evaluate", *flags]) == 0
    own = read_json(tmp_path / "own/scores.json")["tasks"]
    assert own["there"]["scores"]["sequence_accuracy"] > 90
    capsys.readouterr()
    assert main(["predict", "--checkpoint", str(run), "--task", "back", "--input", "e f"]) == 0
    assert capsys.readouterr().out.split() == ["a", "b"]
    too_long = ["--set", "INPUTS_LENGTH=12"]
    assert main(["predict", "--checkpoint", str(run), "--task", "back", "--input", "e f", *too_long]) == 2
    assert "task 'back', with its answers, is read with --inputs_length=18" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, "rank"])
def test_a_suite_takes_what_the_encoder_writes(tuned, tmp_path, method):
    run, _ = tuned
    suite = SuiteEvaluation(
        checkpoint=str(run),
        tasks=("back",),
        output_dir=str(tmp_path),
        method=method,
        max_new_tokens=4,
        batch_size=8,
        resamples=0,
    )
    registry.register(read_recorded(run, "tasks"))
    entry = evaluate_suite(suite, shown=False)["tasks"]["back"]
    assert entry["method"] == (method or "generate")
    assert entry["scores"]["sequence_accuracy"] > 90


@pytest.mark.slow
def test_an_encoder_that_never_wrote_is_refused(tuned, tmp_path):
    run, _ = tuned
    other = tmp_path / "other"
    shutil.copytree(run, other)
    (other / "config.json").unlink()  # as of a published BERT
    suite = SuiteEvaluation(
        checkpoint=str(other), tasks=("back",), output_dir=str(tmp_path / "out"), method="generate"
    )
    with pytest.raises(
        ValueError, match=r"is an encoder, which writes nothing.*LoaderConfig\.masked_targets"
    ):
        evaluate_suite(suite, shown=False)


@pytest.mark.slow
def test_answers_are_ranked_by_their_likelihood(tuned, tmp_path):
    run, _ = tuned
    rank = TaskEvaluation(mixture="back", inputs_length=7, targets_length=4, batch_size=16, method="rank")
    assert evaluate(run, evaluations=(rank,), output_dir=tmp_path)["back"].scores["sequence_accuracy"] > 90


@pytest.mark.slow
def test_prompts_and_answers_longer_than_the_positions_are_refused(tuned, tmp_path):
    run, _ = tuned
    long = TaskEvaluation(
        mixture="there", inputs_length=12, targets_length=4, generation=GenerationConfig(max_new_tokens=4)
    )
    with pytest.raises(
        ValueError, match=r"task 'there', with its answers, is read with inputs_length=18, but the m"
    ):
        evaluate(run, evaluations=(long,), output_dir=tmp_path)


def test_an_encoder_with_sliding_windows_writes_but_scores_no_given_answers(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    config = ModernBertConfig(
        vocab_size=len(PIECES),
        model_dim=16,
        mlp_dim=16,
        num_heads=2,
        num_layers=2,
        task="masked_lm",
        local_attention=4,
    )
    model = TextModel.as_trained(config, MeshConfig().build(), open_tokenizer(tmp_path / "vocab.txt", 0))
    with pytest.raises(ValueError, match=r"it writes, but can't score given answers\. Use method='generate'"):
        model.score({}, [LikelihoodRequest([2, 5, 3], [6, 3])], batch_size=8, limit=8)
