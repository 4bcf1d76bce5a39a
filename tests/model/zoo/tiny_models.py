"""Every architecture, small enough to train a step of it in a test; depths, heads and widths differ where they may."""

from typing import Any

import numpy as np

from t5x_like.ancestors.families.pretrained_features import FeaturesConfig
from t5x_like.ancestors.zoo.awd_lstm import AWDLSTMConfig
from t5x_like.ancestors.zoo.bcn import BCNConfig
from t5x_like.ancestors.zoo.bilstm import BiLSTMConfig
from t5x_like.ancestors.zoo.elmo import ElmoConfig
from t5x_like.ancestors.zoo.rnn_seq2seq import RNNSeq2SeqConfig
from t5x_like.batch import Batch
from t5x_like.model.layers.rotary import Llama3Scaling
from t5x_like.model.zoo.albert import AlbertConfig
from t5x_like.model.zoo.bart import BartConfig
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.deberta_v2 import DebertaV2Config
from t5x_like.model.zoo.deepseek_v3 import DeepseekV3Config
from t5x_like.model.zoo.distilbert import DistilBertConfig
from t5x_like.model.zoo.electra import ElectraConfig
from t5x_like.model.zoo.ernie import ErnieConfig
from t5x_like.model.zoo.eurobert import EuroBertConfig
from t5x_like.model.zoo.gemma import GemmaConfig
from t5x_like.model.zoo.gemma2 import Gemma2Config
from t5x_like.model.zoo.gemma3 import Gemma3Config
from t5x_like.model.zoo.glm4 import Glm4Config
from t5x_like.model.zoo.glm_orig import GLMOrigConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.gpt3 import GPT3Config
from t5x_like.model.zoo.gpt_neo import GPTNeoConfig
from t5x_like.model.zoo.gpt_neox import GPTNeoXConfig
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.longt5 import LongT5Config
from t5x_like.model.zoo.m2m_100 import M2M100Config
from t5x_like.model.zoo.mbart import MBartConfig
from t5x_like.model.zoo.mistral import MistralConfig
from t5x_like.model.zoo.mixtral import MixtralConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.modernbert_decoder import ModernBertDecoderConfig
from t5x_like.model.zoo.mpnet import MPNetConfig
from t5x_like.model.zoo.neobert import NeoBertConfig
from t5x_like.model.zoo.nomic_bert import NomicBertConfig
from t5x_like.model.zoo.olmo2 import Olmo2Config
from t5x_like.model.zoo.olmo3 import Olmo3Config
from t5x_like.model.zoo.olmoe import OlmoeConfig
from t5x_like.model.zoo.openai_gpt import OpenAIGPTConfig
from t5x_like.model.zoo.pegasus import PegasusConfig
from t5x_like.model.zoo.qwen2 import Qwen2Config
from t5x_like.model.zoo.qwen3 import Qwen3Config
from t5x_like.model.zoo.qwen3_moe import Qwen3MoeConfig
from t5x_like.model.zoo.roberta import RobertaConfig
from t5x_like.model.zoo.smollm3 import SmolLM3Config
from t5x_like.model.zoo.spanbert import SpanBertConfig
from t5x_like.model.zoo.switch_transformer import SwitchTransformerConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.t5gemma import T5GemmaConfig
from t5x_like.model.zoo.t5gemma_stack import T5GemmaStackConfig
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.model.zoo.transformer import TransformerConfig
from t5x_like.model.zoo.xlnet import XLNetConfig

VOCAB_SIZE = 61
LENGTH = 12

_SIZE: dict[str, Any] = {"vocab_size": VOCAB_SIZE, "model_dim": 32, "mlp_dim": 48, "num_heads": 4}
_ONE: dict[str, Any] = {**_SIZE, "num_layers": 2, "dropout_rate": 0.1}
_LEARNED: dict[str, Any] = {**_ONE, "max_position_embeddings": 16}
_GROUPED: dict[str, Any] = {**_ONE, "num_kv_heads": 2}
_EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_token": 2, "router_z_weight": 0.001}
_PAIR: dict[str, Any] = {
    **_SIZE,
    "head_dim": 6,
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "dropout_rate": 0.1,
}

_TWO_STACKS: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "model_dim": 32,
    "encoder_mlp_dim": 48,
    "decoder_mlp_dim": 64,
    "num_encoder_heads": 4,
    "num_decoder_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
    "max_position_embeddings": 16,
}

_GEMMA_STACK: dict[str, Any] = {"mlp_dim": 48, "num_kv_heads": 2, "head_dim": 8, "sliding_window": 4}

TINY: dict[str, Any] = {
    "albert": AlbertConfig(**_LEARNED, embed_dim=16),
    "awd_lstm": AWDLSTMConfig(
        vocab_size=VOCAB_SIZE,
        model_dim=32,
        hidden_dim=40,
        num_layers=2,
        dropout_rate=0.1,
        input_dropout_rate=0.1,
        layer_dropout_rate=0.1,
        embedding_dropout_rate=0.1,
        weight_dropout_rate=0.2,
        init_stddev=0.5,
    ),
    "bart": BartConfig(**_TWO_STACKS),
    "bcn": BCNConfig(
        vocab_size=VOCAB_SIZE,
        model_dim=32,
        input_dim=24,
        hidden_dim=16,
        integrator_dim=16,
        maxout_dims=(16, 8),
        dropout_rate=0.1,
        features=FeaturesConfig(
            model=BiLSTMConfig(vocab_size=VOCAB_SIZE, model_dim=16, hidden_dim=8, task="base")
        ),
    ),
    "bert": BertConfig(**_LEARNED),
    "bilstm": BiLSTMConfig(vocab_size=VOCAB_SIZE, model_dim=32, hidden_dim=24, dropout_rate=0.1),
    "deberta_v2": DebertaV2Config(**_LEARNED, position_buckets=8, conv_kernel_size=3),
    "deberta_v3": DebertaV2Config(**_LEARNED, position_buckets=8, share_att_key=False, num_token_types=2),
    "deepseek_v3": DeepseekV3Config(
        **_ONE,
        **_EXPERTS,
        moe_mlp_dim=20,
        first_k_dense_replace=1,
        n_group=2,
        topk_group=1,
        q_lora_rank=16,
        kv_lora_rank=12,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=6,
    ),
    "distilbert": DistilBertConfig(**_LEARNED),
    "electra_discriminator": ElectraConfig(**_LEARNED, embed_dim=16),
    "electra_generator": ElectraConfig(**_LEARNED, embed_dim=16, task="masked_lm"),
    "elmo": ElmoConfig(
        vocab_size=VOCAB_SIZE,
        model_dim=16,
        hidden_dim=24,
        character_dim=4,
        filters=((1, 8), (2, 8), (3, 16)),
        dropout_rate=0.1,
    ),
    "ernie_2_0": ErnieConfig(**_LEARNED, num_task_types=3),
    "eurobert": EuroBertConfig(**_GROUPED),
    "gemma": GemmaConfig(**_ONE, num_kv_heads=1, head_dim=10),
    "gemma2": Gemma2Config(**_GROUPED, head_dim=8, sliding_window=4),
    "gemma3": Gemma3Config(
        **_GROUPED, head_dim=8, sliding_window=4, layer_types=("sliding_attention", "full_attention")
    ),
    "glm4": Glm4Config(**_GROUPED, head_dim=8),
    "glm_orig": GLMOrigConfig(**_LEARNED),
    "gpt": OpenAIGPTConfig(**_LEARNED),
    "gpt2": GPT2Config(**_LEARNED),
    "gpt3": GPT3Config(**_LEARNED, head_dim=8, band=4),
    "gpt_neo": GPTNeoConfig(**_LEARNED, window_size=4),
    "gpt_neox": GPTNeoXConfig(**_ONE),
    "llama": LlamaConfig(**_GROUPED),
    "llama3_1": LlamaConfig(
        **_GROUPED,
        rope_scaling=Llama3Scaling(
            factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8
        ),
    ),
    "longt5_local": LongT5Config(**_PAIR, local_radius=2),
    "longt5_transient_global": LongT5Config(**_PAIR, local_radius=2, global_block_size=4),
    "m2m_100": M2M100Config(**_TWO_STACKS),
    "mbart": MBartConfig(**_TWO_STACKS),
    "mistral": MistralConfig(**_GROUPED, sliding_window=4),
    "mixtral": MixtralConfig(**_GROUPED, **_EXPERTS, sliding_window=4),
    "modernbert": ModernBertConfig(**_SIZE, num_layers=4, local_attention=4),
    "modernbert_decoder": ModernBertDecoderConfig(**_SIZE, num_layers=4, sliding_window=3),
    "mpnet": MPNetConfig(**_LEARNED),
    "mt5": T5Config(**_PAIR),
    "neobert": NeoBertConfig(**_ONE),
    "nomic_bert": NomicBertConfig(**_ONE),
    "olmo2": Olmo2Config(**_GROUPED),
    "olmo3": Olmo3Config(**_GROUPED, sliding_window=4, layer_types=("sliding_attention", "full_attention")),
    "olmoe": OlmoeConfig(**_GROUPED, **_EXPERTS, clip_qkv=0.5),
    "pegasus": PegasusConfig(**_TWO_STACKS),
    "qwen2": Qwen2Config(**_GROUPED),
    "qwen3": Qwen3Config(**_GROUPED, head_dim=10),
    "qwen3_moe": Qwen3MoeConfig(
        **{**_GROUPED, "num_layers": 3},
        **_EXPERTS,
        head_dim=10,
        moe_mlp_dim=20,
        mlp_only_layers=(0,),
        sliding_window=4,
    ),
    "rnn_seq2seq": RNNSeq2SeqConfig(
        vocab_size=VOCAB_SIZE,
        model_dim=32,
        hidden_dim=24,
        num_layers=2,
        encoder_direction="both",
        attention="general",
        input_feeding="output",
        dropout_rate=0.1,
    ),
    "roberta": RobertaConfig(**_LEARNED),
    "smollm3": SmolLM3Config(**_GROUPED, rotated_layers=(True, False)),
    "spanbert": SpanBertConfig(**_LEARNED),
    "switch": SwitchTransformerConfig(**{**_PAIR, "num_decoder_layers": 2}, num_experts=4),
    "switch_top_2": SwitchTransformerConfig(
        **{**_PAIR, "num_decoder_layers": 2}, num_experts=4, num_experts_per_token=2, router_z_weight=0.001
    ),
    "t5_1_0": T5Config(**_PAIR, feed_forward="relu", tie_word_embeddings=True),
    "t5_shared": T5Config(**{**_PAIR, "num_encoder_layers": 2, "num_decoder_layers": 2}, share_stacks=True),
    "t5gemma": T5GemmaConfig(
        vocab_size=VOCAB_SIZE,
        encoder=T5GemmaStackConfig(**_GEMMA_STACK, model_dim=24, num_heads=2, num_layers=1),
        decoder=T5GemmaStackConfig(**_GEMMA_STACK, model_dim=32, num_heads=4, num_layers=2),
        dropout_rate=0.1,
    ),
    "transfo_xl": TransfoXLConfig(**_ONE, head_dim=8, memory_length=4, embed_dim=32, cutoffs=(20, 40)),
    "transformer": TransformerConfig(**_TWO_STACKS),
    "umt5": T5Config(**_PAIR, relative_tables="per_layer"),
    "unilm": BertConfig(**_LEARNED, task="masked_lm"),
    "xlnet": XLNetConfig(**_ONE, head_dim=8),
}


def random_batch(seed: int, *, reads: str, rows: int = 8) -> Batch:
    """Two examples to a row with padding after them; ``reads`` is "encoder", "decoder" or "both"."""
    rng = np.random.default_rng(seed)
    segments = np.repeat([[1] * 5 + [2] * 5 + [0] * 2], rows, axis=0).astype(np.int32)
    tokens = (rng.integers(3, VOCAB_SIZE, segments.shape) * (segments > 0)).astype(np.int32)
    streams: dict[str, Any] = {}
    if reads != "decoder":
        streams |= {"encoder_input_tokens": tokens, "encoder_segment_ids": segments}
    if reads != "encoder":
        shifted = np.roll(tokens, 1, axis=1)
        streams |= {"decoder_input_tokens": shifted, "decoder_segment_ids": segments}
    return Batch(**streams, target_tokens=tokens, loss_weights=(segments > 0).astype(np.float32))
