"""Learning from answers that the model writes: GRPO, RLOO and PPO, for decoders and encoder-decoders."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.inference.scorer import LikelihoodRequest, Scorer, scoring_batch
from t5x_like.io.files import read_jsonl
from t5x_like.model import parameters
from t5x_like.model.adapters.lora import LoRA
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.chat_templates import ChatTemplate
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.grpo import GRPO, RLOO
from t5x_like.training.methods.ppo import PPO
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.rollouts.answer_rows import prompts_of
from t5x_like.training.rollouts.rewards import FunctionReward
from t5x_like.training.rollouts.rollout_files import RolloutFiles
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

SIZES: dict[str, Any] = {"vocab_size": 384, "model_dim": 32, "mlp_dim": 64, "num_heads": 2}
DECODER = GPT2Config(**SIZES, num_layers=1, max_position_embeddings=32)
T5 = T5Config(**SIZES, head_dim=16, num_encoder_layers=1, num_decoder_layers=1)
LAYOUTS: dict[type, dict[str, Any]] = {
    GPT2Config: {"layout": "decoder", "prefix_attention": "causal", "inputs_length": 8, "targets_length": 16},
    T5Config: {"layout": "encoder_decoder", "inputs_length": 8, "targets_length": 8},
}


def shared_letters(prompts: list[str], answers: list[str], targets: list[str]) -> list[float]:
    """Reward letters at their places, and answers as long as the target."""
    return [
        sum(map(str.__eq__, answer, target)) / 2 - 0.1 * abs(len(answer) - len(target))
        for answer, target in zip(answers, targets, strict=True)
    ]


def nothing(prompts: list[str], answers: list[str], targets: list[str]) -> list[float]:
    return [float("nan")] * len(answers)


def one(prompts: list[str], answers: list[str], targets: list[str]) -> list[float]:
    return [float("nan") if index % 4 == 3 else 1.0 for index in range(len(answers))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows to swap two letters, and both models after some supervised steps."""
    folder = tmp_path_factory.mktemp("on_policy")
    rows = [{"q": f"{a}{b}", "a": f"{b}{a}"} for a in "abcd" for b in "efgh"]
    (folder / "swap.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    functions = ModuleType("rewards_of_rollouts")
    vars(functions).update({each.__name__: each for each in (shared_letters, nothing, one)})
    sys.modules[functions.__name__] = functions
    for name, model in (("gpt2", DECODER), ("t5", T5)):
        run(folder, name, model, Supervised(), total_steps=20)
    return folder


def reward(name: str = "shared_letters") -> tuple[FunctionReward, ...]:
    return (FunctionReward(function=f"rewards_of_rollouts.{name}"),)


def task(folder: Path, name: str = "swap_letters") -> TextTask:
    return TextTask(
        name=name,
        vocabulary="bytes",
        files={"train": str(folder / "swap.jsonl")},
        input_template="{q}",
        target_template="{a}",
    )


def run(folder: Path, name: str, model: Any, method: Any, **changes: Any) -> Path:
    loader = {
        "mixture": "swap_letters",
        "batch_size": 16,
        "pack": False,
        **LAYOUTS.get(type(model), LAYOUTS[T5Config]),
    }
    settings = {
        "tasks": (task(folder),),
        "total_steps": 4,
        "intervals": Intervals(log_every_steps=1, evaluate_every_steps=0, save_every_steps=0),
        "optimizer": AdamW(learning_rate=Constant(value=3e-3)),
        **changes,
    }
    train_config = LoaderConfig(**(loader | settings.pop("loader", {})))
    train(
        experiment_of(
            model=model, method=method, train=train_config, model_dir=str(folder / name), **settings
        )
    )
    return folder / name


def lines(home: Path) -> list[dict[str, Any]]:
    return [line for line in read_jsonl(home / "metrics.jsonl") if line["split"] == "train"]


def test_rewards_rise_and_samples_are_kept(folder: Path) -> None:
    method = GRPO(rewards=reward(), reference=str(folder / "t5"), num_answers=8, keep_samples_every_steps=8)
    start = {"start_from": str(folder / "t5"), "loader": {"batch_size": 64}}
    home = run(folder, "grpo", T5, method, total_steps=16, **start)
    logged = lines(home)
    assert logged[0]["kl"] == pytest.approx(0, abs=1e-3)  # both models are the same
    first, last = (np.mean([line["reward"] for line in each]) for each in (logged[:3], logged[-3:]))
    assert last > first + 0.15
    assert logged[-1]["kl"] > 0.05
    assert {line["clipped_tokens"] for line in logged} == {0.0}  # each answer is learned once
    assert sorted(file.name for file in (home / "samples").iterdir()) == ["00000000.jsonl", "00000008.jsonl"]
    sample = next(iter(read_jsonl(home / "samples" / "00000008.jsonl")))
    assert set(sample) == {"step", "prompt", "answer", "reward", "kl"}
    assert len(sample["prompt"]) == 2
    assert sample["reward"] == pytest.approx(
        shared_letters([""], [sample["answer"]], [sample["prompt"][::-1]])[0]
    )
    assert not (home / "rollouts").exists()


def test_a_stopped_run_continues_with_the_same_bits_in_the_middle_of_its_answers(folder: Path) -> None:
    method = PPO(
        rewards=reward(), reference=str(folder / "gpt2"), num_epochs=2, num_minibatches=2, kl_target=3.0
    )
    start = {"start_from": str(folder / "gpt2"), "num_microbatches": 2}
    run(folder, "parts", DECODER, method, total_steps=6, **start)
    (folder / "parts" / "rollouts" / "00000000.npz").unlink()  # the steps after 4 need those of step 4 alone
    home = run(folder, "parts", DECODER, method, total_steps=9, **start)
    whole = run(folder, "whole", DECODER, method, total_steps=9, **start)
    names = ("loss", "value_loss", "reward", "kl", "gradient_norm", "clipped_tokens")
    assert [[line[name] for name in names] for line in lines(home)] == [
        [line[name] for name in names] for line in lines(whole)
    ]
    logged = lines(whole)
    assert len({line["reward"] for line in logged[:4]}) > 1  # parts of the same answers
    assert logged[0]["value_loss"] > 0
    assert logged[2]["clipped_tokens"] > 0
    value_kernel = "heads/scores/value/projection/kernel"
    assert value_kernel in parameters.flatten(open_checkpoint(whole).params)
    assert main(["convert", "--from", str(whole), "--to", str(folder / "exported"), "--export", "hf"]) == 0
    exported = open_checkpoint(folder / "exported")
    assert exported.can_generate
    assert value_kernel not in parameters.flatten(exported.params)


@pytest.mark.slow
def test_kept_log_probabilities_are_those_of_the_model_that_wrote_the_answers(folder: Path) -> None:
    method = GRPO(rewards=reward(), beta=0.0, num_answers=2, num_epochs=2)
    home = run(folder, "kept", DECODER, method, start_from=str(folder / "gpt2"), total_steps=2)
    rows = RolloutFiles(str(home)).read(0)
    checkpoint = open_checkpoint(folder / "gpt2", mesh=MeshConfig().build())
    scorer = Scorer(checkpoint.graphdef, checkpoint.mesh, vocab_size=384)
    prompts = prompts_of(rows)
    batch = scoring_batch(
        [LikelihoodRequest(*each) for each in zip(prompts.ids, prompts.targets, strict=True)],
        is_decoder=True,
        start_id=0,
        batch_size=16,
        limit=32,
    )
    assert rows.declared is not None
    sums = np.sum(rows.declared["old_logps"] * rows.loss_weights, axis=-1)
    np.testing.assert_allclose(scorer(checkpoint.params, batch).log_likelihoods, sums, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.slow
def test_a_schedule_free_run_writes_answers_by_the_weights_of_its_gradients(folder: Path) -> None:
    """The first step of each rollout would clip ratios to the average's probabilities."""
    method = GRPO(
        rewards=reward(), num_answers=2, num_epochs=2, epsilon_low=1e-3, epsilon_high=1e-3, beta=0.0
    )
    optimizer = ScheduleFreeAdamW(learning_rate=0.01, beta1=0.5)
    home = run(
        folder, "schedule_free", T5, method, start_from=str(folder / "t5"), total_steps=8, optimizer=optimizer
    )
    clipped = [line["clipped_tokens"] for line in lines(home)]
    assert max(clipped[::2]) == 0.0
    assert max(clipped[1::2]) > 0.0


def test_answers_without_a_reward_or_with_equal_ones_are_counted(folder: Path) -> None:
    method = GRPO(rewards=reward("one"), beta=0.0, num_answers=4)
    loader = {"batch_size": 32}
    home = run(folder, "equal", T5, method, total_steps=1, loader=loader)
    (line,) = lines(home)
    assert line["unrewarded_answers"] == 0.25
    assert line["equal_rewards"] == 0.0  # one of each group is missing
    assert line["gradient_norm"] == 0.0
    with pytest.raises(
        ValueError, match="step 1: all rewards are not-a-number, so that nothing can be learned"
    ):
        run(folder, "nothing", T5, replace(method, rewards=reward("nothing")), total_steps=1, loader=loader)


@pytest.mark.slow
def test_rows_of_supervised_tasks_are_learned_as_they_are(folder: Path) -> None:
    method = PPO(
        rewards=reward(),
        kl_coefficient=0.0,
        num_epochs=1,
        supervised_tasks=("swap_targets",),
        supervised_weight=20.0,
    )
    tasks = (
        task(folder),
        task(folder, "swap_targets"),
        Mixture(
            name="both",
            tasks=("swap_letters", "swap_targets"),
            rates={"swap_letters": 1.0, "swap_targets": 1.0},
        ),
    )
    home = run(folder, "ptx", DECODER, method, tasks=tasks, loader={"mixture": "both"}, total_steps=40)
    logged = lines(home)
    assert logged[-1]["supervised_loss"] < logged[0]["supervised_loss"] / 2
    assert logged[-1]["unrewarded_answers"] == 0.0


@pytest.mark.slow
def test_the_last_answer_of_a_conversation_ends_as_its_template_says(folder: Path) -> None:
    talks = [
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "c"},
                {"role": "assistant", "content": letter},
            ]
        }
        for letter in "defg"
    ]
    (folder / "talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in talks))
    template = ChatTemplate(
        turns={"user": "{content}<u>", "assistant": "{content}<a>"}, special=("<u>", "<a>")
    )
    task = ChatTask(
        name="talks",
        vocabulary="bytes",
        files={"train": str(folder / "talks.jsonl")},
        template=template,
        special_ids={"<u>": 300, "<a>": 301},
    )
    assert task.answer_end == 301
    loader = {"mixture": "talks"}
    base = run(folder, "talks", DECODER, Supervised(), tasks=(task,), loader=loader, total_steps=80)
    method = RLOO(rewards=reward(), beta=0.0, num_answers=2, num_epochs=2)
    home = run(
        folder, "talked", DECODER, method, tasks=(task,), loader=loader, start_from=str(base), total_steps=2
    )
    rows = RolloutFiles(str(home)).read(0)
    assert rows.decoder_input_tokens[0, :6].tolist() == [100, 300, 101, 301, 102, 300]
    last = [row[weights > 0][-1] for row, weights in zip(rows.target_tokens, rows.loss_weights, strict=True)]
    assert last.count(301) > len(last) / 2
    assert {weights[:5].sum() for weights in rows.loss_weights} == {
        0.0
    }  # earlier answers are part of the prompt
    assert lines(home)[0]["answer_length"] == pytest.approx(2, abs=0.5)  # a letter and its end
    turns = {"user": "{content}", "assistant": "{content}."}
    unending = replace(task, name="unending", template=ChatTemplate(turns=turns), special_ids={})
    with pytest.raises(ValueError, match="no special string of the template ends an answer"):
        _ = unending.answer_end


@pytest.mark.slow
@pytest.mark.parametrize("num_microbatches", [1, 2])
def test_an_adapter_learns_and_its_reference_is_the_model_without_it(
    folder: Path, num_microbatches: int
) -> None:
    adapted = replace(DECODER, adapter=LoRA(rank=4))
    method = RLOO(rewards=reward(), num_answers=4)
    name = f"rloo_{num_microbatches}"
    start = {
        "start_from": str(folder / "gpt2"),
        "num_microbatches": num_microbatches,
        "loader": {"batch_size": 32},
    }
    logged = lines(run(folder, name, adapted, method, total_steps=12, **start))
    assert logged[0]["kl"] == pytest.approx(0, abs=1e-3)
    assert logged[-1]["kl"] != 0
    assert all(line["gradient_norm"] > 0 for line in logged)


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        (
            GRPO(rewards=reward(), beta=0.0),
            {"loader": {"batch_size": 64, "pack": True}},
            "are packed; set pack=False",
        ),
        (GRPO(rewards=reward()), {}, "there is none; give reference=CHECKPOINT"),
        (GRPO(rewards=reward(), beta=0.0, num_answers=3), {}, "aren't a multiple of num_answers=3"),
        (
            PPO(rewards=reward(), kl_coefficient=0.0, supervised_tasks=("corpus",)),
            {},
            "supervised_tasks has 'corpus', and the tasks of mixture",
        ),
        (
            GRPO(rewards=(FunctionReward(function="no_such_module.reward"),), beta=0.0),
            {},
            "'no_such_module.reward' can't be imported",
        ),
    ],
)
def test_methods_that_do_not_fit_are_refused_before_anything_is_written(
    folder: Path, method: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(folder, "refused", T5, method, **{"loader": {"batch_size": 64}, **changes})
    assert not (folder / "refused").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewards": ()}, "GRPO needs rewards"),
        ({"num_answers": 1}, "compares the answers to a prompt; give at least 2"),
        ({"epsilon_high": 0.3}, "has no effect: each answer is learned in one step"),
        ({"beta": -1.0}, "beta is -1.0"),
        ({"beta": 0.0, "reference": "runs/sft"}, "beta=0 compares with no reference"),
        ({"num_epochs": 0}, "num_epochs is 0"),
        ({"loss": LossConfig(label_smoothing=0.1)}, "learns from rewards, and not from targets"),
        ({"supervised_tasks": ("corpus",)}, "would repeat their rows; set num_answers=1"),
        ({"supervised_weight": 2.0}, "there are no supervised_tasks"),
        ({"learns_cut_answers": True, "reference_step": 3}, "there is no checkpoint as reference"),
    ],
)
def test_options_without_an_effect_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GRPO(**{"rewards": reward(), **options})
    with pytest.raises(ValueError, match="kl_target is 0"):
        PPO(rewards=reward(), kl_target=0.0)
    with pytest.raises(ValueError, match="gamma is 2"):
        PPO(rewards=reward(), gamma=2.0)
