"""TRL's trainers, to compare with our methods; imports nothing of t5x_like.

The argument is a JSON object: ``method`` ("grpo" or "dpo"), ``directory`` of model and tokenizer, ``rows`` (a file of
JSON lines), ``new_tokens``, ``batch_size`` (answers or pairs of a step), ``num_answers``, ``steps``, ``learning_rate``
and ``beta``. Prints a JSON object with the seconds of each step.
"""

import importlib
import json
import sys
import tempfile
import time
from typing import Any


def main() -> None:
    """Train for some steps, and print the seconds of each."""
    datasets, torch = importlib.import_module("datasets"), importlib.import_module("torch")
    transformers, trl = importlib.import_module("transformers"), importlib.import_module("trl")
    request = json.loads(sys.argv[1])
    begun: list[float] = []
    seconds: list[float] = []

    class Clock(transformers.TrainerCallback):
        """Takes the time of steps, with the answers that are written before."""

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            begun.append(time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds.append(time.perf_counter() - begun[-1])
            begun.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as output:
        shared: dict[str, Any] = {
            "output_dir": output,
            "per_device_train_batch_size": request["batch_size"],
            "max_steps": request["steps"],
            "learning_rate": request["learning_rate"],
            "beta": request["beta"],
            "report_to": [],
            "save_strategy": "no",
            "logging_steps": 1,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "dataloader_pin_memory": False,
            "disable_tqdm": True,
        }
        arguments: dict[str, Any] = {
            "model": transformers.AutoModelForCausalLM.from_pretrained(request["directory"]),
            "processing_class": transformers.AutoTokenizer.from_pretrained(request["directory"]),
            "train_dataset": datasets.load_dataset("json", data_files=request["rows"], split="train"),
            "callbacks": [Clock()],
        }
        if request["method"] == "grpo":
            settings = trl.GRPOConfig(
                **shared,
                num_generations=request["num_answers"],
                max_completion_length=request["new_tokens"],
                loss_type="grpo",
            )
            trainer = trl.GRPOTrainer(args=settings, reward_funcs=reward, **arguments)
        else:
            trainer = trl.DPOTrainer(args=trl.DPOConfig(**shared), **arguments)
        trainer.train()
    versions = {name: importlib.import_module(name).__version__ for name in ("torch", "transformers", "trl")}
    lengths = [
        line["completions/mean_length"]
        for line in trainer.state.log_history
        if "completions/mean_length" in line
    ]
    print(
        json.dumps({**versions, "threads": torch.get_num_threads(), "seconds": seconds, "lengths": lengths})
    )


def reward(completions: list[str], **_: Any) -> list[float]:
    """Reward answers with the share of "e" among their characters."""
    return [text.count("e") / max(len(text), 1) for text in completions]


if __name__ == "__main__":
    main()
