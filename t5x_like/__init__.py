"""t5x_like: train, fine-tune and evaluate the whole Transformer family in JAX.

The names below are the public Python API. Each is imported when it is first used, so ``import t5x_like`` is cheap.

>>> import t5x_like
>>> t5x_like.from_pretrained("path/to/t5-small").generate("translate English to German: Good morning.")
'Guten Morgen.'

Models: ``from_pretrained``, ``Pretrained``, ``open_checkpoint``, ``export_hugging_face``, ``export_gguf``,
``export_stablehlo``; any architecture's configuration is in ``t5x_like.model.zoo``.
Your own table: ``fine_tune``. Inside of a model: ``analyze``.
Runs: ``Experiment``, ``train``, ``evaluate``, ``read_experiment``, and the configurations that experiments consist of.
"""

import importlib
from typing import TYPE_CHECKING, Any

from t5x_like.version import __version__

if TYPE_CHECKING:
    from t5x_like.analysis.analyses import analysis_class, analyze
    from t5x_like.analysis.analysis import Analysis
    from t5x_like.ancestors.pretrained_inputs import PretrainedInputs
    from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
    from t5x_like.inference.generator import GenerationConfig
    from t5x_like.model.adapters import (
        IA3,
        BottleneckAdapter,
        ContrastivePrefixes,
        LoRA,
        PrefixTuning,
        PromptTuning,
    )
    from t5x_like.model.zoo.bert import BertConfig
    from t5x_like.model.zoo.gpt2 import GPT2Config
    from t5x_like.model.zoo.llama import LlamaConfig
    from t5x_like.model.zoo.t5 import T5Config
    from t5x_like.optimizers.lamb import Lamb
    from t5x_like.optimizers.lion import Lion
    from t5x_like.optimizers.muon import Muon
    from t5x_like.optimizers.optimizers import Adafactor, AdamW
    from t5x_like.optimizers.parameter_groups import LayerDecay
    from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW
    from t5x_like.optimizers.schedules import (
        Constant,
        Factors,
        InverseSqrt,
        LinearWarmupCosine,
        LinearWarmupLinearDecay,
        Noam,
        SlantedTriangular,
        WarmupStableDecay,
    )
    from t5x_like.optimizers.stable_adamw import StableAdamW
    from t5x_like.partitioning.mesh import MeshConfig
    from t5x_like.pretrained.checkpoint import Checkpoint
    from t5x_like.pretrained.initial_weights import CheckpointModel
    from t5x_like.pretrained.open_checkpoint import open_checkpoint
    from t5x_like.pretrained.sentence_transformers import SentenceEmbedding
    from t5x_like.pretrained.transformers_api.exports import export_gguf, export_hugging_face
    from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained, from_pretrained
    from t5x_like.pretrained.transformers_api.stablehlo import export_stablehlo
    from t5x_like.projects.fine_tuning import FineTunedModel, fine_tune
    from t5x_like.text.batches.loader_config import LoaderConfig
    from t5x_like.text.objectives.causal_lm import CausalLM
    from t5x_like.text.objectives.masked_lm import MaskedLM
    from t5x_like.text.objectives.span_corruption import SpanCorruption
    from t5x_like.text.tasks.dataset_files import dataset_files
    from t5x_like.text.tasks.mixtures import Mixture
    from t5x_like.text.tasks.pretraining import PretrainingTask
    from t5x_like.text.tasks.text_task import TextTask
    from t5x_like.training.batch_ramp import BatchSizeRamp, BatchSizeStages
    from t5x_like.training.early_stopping import EarlyStopping
    from t5x_like.training.evaluate import evaluate
    from t5x_like.training.experiment import Experiment
    from t5x_like.training.hooks import Every, Hook, RunProgress
    from t5x_like.training.loop import Finished
    from t5x_like.training.loss_spikes import LossSpikes
    from t5x_like.training.losses import LossConfig
    from t5x_like.training.methods.distillation import Distillation
    from t5x_like.training.methods.supervised import Supervised
    from t5x_like.training.metric_loggers import CsvLogger, MlflowLogger, WandbLogger
    from t5x_like.training.noisy_tune import NoisyTune
    from t5x_like.training.run_config import Intervals, RunConfig
    from t5x_like.training.run_record import read_experiment
    from t5x_like.training.start.fresh_weights import FreshWeights
    from t5x_like.training.start.pretrained_decoder import PretrainedDecoder
    from t5x_like.training.start.pretrained_encoder import PretrainedEncoder
    from t5x_like.training.start.pretrained_weights import PretrainedWeights
    from t5x_like.training.start.vocabulary_transfer import VocabularyTransfer
    from t5x_like.training.train import train
    from t5x_like.training.training_data import TrainingData
    from t5x_like.training.unfreezing import GradualUnfreezing
    from t5x_like.training.watchdog import Watchdog
    from t5x_like.training.weight_average import ExponentialMovingAverage

# The module of each public name; a test compares them with the imports above, which type checkers read.
_MODULES = {
    "Adafactor": "optimizers.optimizers",
    "AdamW": "optimizers.optimizers",
    "Analysis": "analysis.analysis",
    "BatchSizeRamp": "training.batch_ramp",
    "BatchSizeStages": "training.batch_ramp",
    "BertConfig": "model.zoo.bert",
    "BottleneckAdapter": "model.adapters",
    "CausalLM": "text.objectives.causal_lm",
    "Checkpoint": "pretrained.checkpoint",
    "CheckpointModel": "pretrained.initial_weights",
    "Constant": "optimizers.schedules",
    "ContrastivePrefixes": "model.adapters",
    "CsvLogger": "training.metric_loggers",
    "Distillation": "training.methods.distillation",
    "EarlyStopping": "training.early_stopping",
    "Every": "training.hooks",
    "Experiment": "training.experiment",
    "ExponentialMovingAverage": "training.weight_average",
    "Factors": "optimizers.schedules",
    "FreshWeights": "training.start.fresh_weights",
    "FineTunedModel": "projects.fine_tuning",
    "Finished": "training.loop",
    "GPT2Config": "model.zoo.gpt2",
    "GenerationConfig": "inference.generator",
    "GradualUnfreezing": "training.unfreezing",
    "HeadEvaluation": "evaluation.evaluator",
    "Hook": "training.hooks",
    "IA3": "model.adapters",
    "Intervals": "training.run_config",
    "InverseSqrt": "optimizers.schedules",
    "Lamb": "optimizers.lamb",
    "LayerDecay": "optimizers.parameter_groups",
    "LinearWarmupCosine": "optimizers.schedules",
    "LinearWarmupLinearDecay": "optimizers.schedules",
    "Lion": "optimizers.lion",
    "LlamaConfig": "model.zoo.llama",
    "LoRA": "model.adapters",
    "LoaderConfig": "text.batches.loader_config",
    "LossConfig": "training.losses",
    "LossSpikes": "training.loss_spikes",
    "MaskedLM": "text.objectives.masked_lm",
    "MeshConfig": "partitioning.mesh",
    "Mixture": "text.tasks.mixtures",
    "Muon": "optimizers.muon",
    "MlflowLogger": "training.metric_loggers",
    "Noam": "optimizers.schedules",
    "NoisyTune": "training.noisy_tune",
    "PrefixTuning": "model.adapters",
    "Pretrained": "pretrained.transformers_api.pretrained_model",
    "PretrainedDecoder": "training.start.pretrained_decoder",
    "PretrainedEncoder": "training.start.pretrained_encoder",
    "PretrainedInputs": "ancestors.pretrained_inputs",
    "PretrainedWeights": "training.start.pretrained_weights",
    "PretrainingTask": "text.tasks.pretraining",
    "PromptTuning": "model.adapters",
    "RunConfig": "training.run_config",
    "RunProgress": "training.hooks",
    "ScheduleFreeAdamW": "optimizers.schedule_free",
    "SentenceEmbedding": "pretrained.sentence_transformers",
    "SlantedTriangular": "optimizers.schedules",
    "SpanCorruption": "text.objectives.span_corruption",
    "StableAdamW": "optimizers.stable_adamw",
    "Supervised": "training.methods.supervised",
    "T5Config": "model.zoo.t5",
    "TaskEvaluation": "evaluation.evaluator",
    "TextTask": "text.tasks.text_task",
    "TrainingData": "training.training_data",
    "VocabularyTransfer": "training.start.vocabulary_transfer",
    "WandbLogger": "training.metric_loggers",
    "WarmupStableDecay": "optimizers.schedules",
    "Watchdog": "training.watchdog",
    "analysis_class": "analysis.analyses",
    "analyze": "analysis.analyses",
    "dataset_files": "text.tasks.dataset_files",
    "evaluate": "training.evaluate",
    "export_gguf": "pretrained.transformers_api.exports",
    "export_hugging_face": "pretrained.transformers_api.exports",
    "export_stablehlo": "pretrained.transformers_api.stablehlo",
    "fine_tune": "projects.fine_tuning",
    "from_pretrained": "pretrained.transformers_api.pretrained_model",
    "open_checkpoint": "pretrained.open_checkpoint",
    "read_experiment": "training.run_record",
    "train": "training.train",
}

__all__ = [
    "IA3",
    "Adafactor",
    "AdamW",
    "Analysis",
    "BatchSizeRamp",
    "BatchSizeStages",
    "BertConfig",
    "BottleneckAdapter",
    "CausalLM",
    "Checkpoint",
    "CheckpointModel",
    "Constant",
    "ContrastivePrefixes",
    "CsvLogger",
    "Distillation",
    "EarlyStopping",
    "Every",
    "Experiment",
    "ExponentialMovingAverage",
    "Factors",
    "FineTunedModel",
    "Finished",
    "FreshWeights",
    "GPT2Config",
    "GenerationConfig",
    "GradualUnfreezing",
    "HeadEvaluation",
    "Hook",
    "Intervals",
    "InverseSqrt",
    "Lamb",
    "LayerDecay",
    "LinearWarmupCosine",
    "LinearWarmupLinearDecay",
    "Lion",
    "LlamaConfig",
    "LoRA",
    "LoaderConfig",
    "LossConfig",
    "LossSpikes",
    "MaskedLM",
    "MeshConfig",
    "Mixture",
    "MlflowLogger",
    "Muon",
    "Noam",
    "NoisyTune",
    "PrefixTuning",
    "Pretrained",
    "PretrainedDecoder",
    "PretrainedEncoder",
    "PretrainedInputs",
    "PretrainedWeights",
    "PretrainingTask",
    "PromptTuning",
    "RunConfig",
    "RunProgress",
    "ScheduleFreeAdamW",
    "SentenceEmbedding",
    "SlantedTriangular",
    "SpanCorruption",
    "StableAdamW",
    "Supervised",
    "T5Config",
    "TaskEvaluation",
    "TextTask",
    "TrainingData",
    "VocabularyTransfer",
    "WandbLogger",
    "WarmupStableDecay",
    "Watchdog",
    "__version__",
    "analysis_class",
    "analyze",
    "dataset_files",
    "evaluate",
    "export_gguf",
    "export_hugging_face",
    "export_stablehlo",
    "fine_tune",
    "from_pretrained",
    "open_checkpoint",
    "read_experiment",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 't5x_like' has no attribute {name!r}")
    return getattr(importlib.import_module(f"t5x_like.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
