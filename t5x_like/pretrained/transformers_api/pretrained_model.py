"""``from_pretrained``: a checkpoint to be called as transformers' models are."""

import functools
from collections.abc import Sequence
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from t5x_like.index_checks import check_seed
from t5x_like.inference.beam_search import EarlyStopping
from t5x_like.inference.ctc_decoding import JointCtc, JointCtcDecoder
from t5x_like.inference.generator import GenerationConfig, continue_prompts
from t5x_like.inference.logits_processors import LogitsProcessors
from t5x_like.inference.sampling import row_keys
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.families.family import can_decode
from t5x_like.model.model_traits import traits_of
from t5x_like.model.named_activations import Edits, record
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.model_tasks import GENERATIVE_TASKS, ModelTask
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.checkpoint import Checkpoint, Dtype, check_dtype
from t5x_like.pretrained.hub import local_directory
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.sentence_transformers import (
    SentenceEmbedding,
    find_sentence_transformer,
)
from t5x_like.pretrained.transformers_api.call import Outputs
from t5x_like.pretrained.transformers_api.call_arguments import (
    argument_names,
    check_generation,
    is_text,
    refuse_unknown,
)
from t5x_like.pretrained.transformers_api.embedding_model import EmbeddingModel
from t5x_like.pretrained.transformers_api.generation import (
    check_special_ids,
    padding_of,
    read_prompts,
    read_waveforms,
    search_settings,
)
from t5x_like.pretrained.transformers_api.generation_defaults import read_generation_file, with_defaults
from t5x_like.pretrained.transformers_api.logits_settings import NAMES as LOGITS_SETTINGS
from t5x_like.pretrained.transformers_api.logits_settings import LogitsSettings, read_processors
from t5x_like.pretrained.transformers_api.speaking_model import SpeakingModel


def from_pretrained(
    directory: PathLike,
    *,
    dtype: Dtype = "float32",
    mesh: Mesh | None = None,
    task: ModelTask | None = None,
    num_labels: int | None = None,
    step: int | None = None,
    revision: str | None = None,
    cache_dir: PathLike | None = None,
) -> "Pretrained":
    """Open a checkpoint to be called as transformers' models are.

    >>> pretrained = t5x_like.from_pretrained("path/to/t5-v1_1-small")
    >>> pretrained(input_ids=ids, labels=labels).loss

    Args:
      directory: Hugging Face or sentence-transformers directory, GGUF file, T5X checkpoint, or run of ours. Or a name
        on the Hugging Face Hub, such as ``google/flan-t5-small``; files in its local cache are used without a network.
      dtype: Type of computation; weights are float32.
      mesh: Devices on which every weight is placed straight away.
      task: Head to use, which the files must have; that of the class in ``config.json`` if not given. A new head is
        trained with ``train``, or drawn for a training loop of yours by ``open_checkpoint(…, draw_heads=True)``.
      num_labels: Number of that head's outputs.
      step: Step of a run; its newest good one if not given.
      revision: Branch, tag or commit on the Hub; the main branch if not given.
      cache_dir: Directory of the Hub's local cache; its usual place if not given.

    Raises:
      ValueError: There is no checkpoint, the model is not known here, or weights are missing or don't fit its
        configuration.
    """
    check_dtype(dtype)
    home = local_directory(directory, revision=revision, cache_dir=cache_dir)
    sentences = find_sentence_transformer(home)
    checkpoint = open_checkpoint(
        home if sentences is None else sentences.model,
        mesh=mesh,
        step=step,
        head=task,
        num_labels=num_labels,
        finite=False,
    )
    settings = checkpoint.sentence_embedding if sentences is None else sentences.embedding
    return Pretrained(checkpoint.computing_in(dtype), settings)


class Pretrained(EmbeddingModel, SpeakingModel):
    """A checkpoint's model with its tokenizer, called as transformers' models are; texts work in place of ids.

    >>> pretrained = t5x_like.from_pretrained("path/to/t5-small")
    >>> pretrained.generate("translate English to German: Good morning.")
    'Guten Morgen.'

    Attributes:
      model: Model with its weights. There is no other copy: when it is trained, calls and exports change.
      config: Configuration of the model.
      adapter: Name of the adapter in use, of those that ``load_adapter`` loaded; ``None`` for none of them.
      fields: Fields of ``config.json`` that are not about the model; empty for runs.
      special_ids: Special ids that pad, begin and end texts.
      sentence_embedding: Settings of the vectors that ``embed`` makes, for a directory of sentence-transformers or a
        run that trained them; else ``None``. Exports have it too.
    """

    def __init__(self, checkpoint: Checkpoint, sentence_embedding: SentenceEmbedding | None = None):
        super().__init__(checkpoint)
        self.sentence_embedding = sentence_embedding
        self._generate = jax.jit(self._continue, static_argnames=("graphdef", "settings", "ctc"))

    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        input_values: Any = None,
        max_new_tokens: int | None = None,
        max_length: int | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        early_stopping: EarlyStopping | None = None,
        num_return_sequences: int | None = None,
        eos_token_id: int | list[int] | None = None,
        pad_token_id: int | None = None,
        do_sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | Sequence[int] = 0,
        ctc_weight: float | None = None,
        return_dict_in_generate: bool = False,
        **logits_settings: Unpack[LogitsSettings],
    ) -> Any:
        """Generate tokens after the start token, or after a decoder's prompt.

        Arguments and defaults are transformers': those of the model's ``generation_config.json``, else greedily.

        Args:
          input_ids: Prompts, [B, M], or a text or list of texts. A decoder without any begins with its ``bos`` token.
          attention_mask: Mask with 1 for real tokens, [B, M]; without it, padding is not attended to. Made for texts.
          input_values: Waveforms [B, S] for a model that reads speech, which also takes them as the first argument.
          max_new_tokens: Limit of new tokens for each row; without ``max_length`` 64 for texts, and for ids 20 or as
            many as there are positions for.
          max_length: Limit of tokens for each row, counting the prompt or the start token.
          num_beams: Number of beams: more than 1 for beam search; 1 if no file says otherwise.
          length_penalty: Length penalty of beam search.
          early_stopping: Early stopping of beam search.
          num_return_sequences: Number of sequences for each row, with beams or sampling.
          eos_token_id: Id that ends a row; the model's own if not given.
          pad_token_id: Id that fills rows that end early; the model's own if not given.
          do_sample: Sample, with ``temperature``, ``top_k`` (0 keeps all tokens) and ``top_p``, from ``seed``.
          temperature: Temperature of sampling.
          top_k: Number of most likely tokens to sample from; 50 if no file says otherwise.
          top_p: Probability that the tokens to sample from reach together.
          seed: Seed of sampling; a sequence has one for each row, which is then drawn as if it were alone.
          ctc_weight: Share of CTC in the scores of a text for speech, for a model with its head, such as 0.3. The blank
            is the last id of the vocabulary.
          return_dict_in_generate: Return ``.sequences`` and, of beams, ``.sequences_scores``.
          **logits_settings: Changes of the next token's scores, such as ``no_repeat_ngram_size``; see
            ``LogitsSettings``.

        Returns:
          Ids, int32 [B * num_return_sequences, length], prompts included, without columns that no row needs. For texts,
          a list of new texts without their prompts; for a single string and one sequence, one text.

        Raises:
          ValueError: A setting is out of its range, or settings exclude each other.
        """
        refuse_unknown(logits_settings, (*argument_names(self.generate), *LOGITS_SETTINGS))
        text = input_ids if is_text(input_ids) else None
        if text is not None:
            encoded = self.encode(text)
            input_ids, attention_mask = encoded["input_ids"], encoded.get("attention_mask")
        if not can_decode(self.model) or self.config.task not in GENERATIVE_TASKS:
            advice = "; call generate_speech" if traits_of(self.config).writes_speech else ""
            raise ValueError(f"this model's task is {self.config.task}; it generates no text{advice}")
        chosen = with_defaults(
            {
                "max_new_tokens": max_new_tokens,
                "max_length": max_length,
                "num_beams": num_beams,
                "length_penalty": length_penalty,
                "early_stopping": early_stopping,
                "num_return_sequences": num_return_sequences,
                "do_sample": do_sample,
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                **logits_settings,
            },
            self._generation_file,
            where=self._opened.directory,
        )
        max_new_tokens, max_length = chosen.pop("max_new_tokens"), chosen.pop("max_length")
        if text is not None and max_new_tokens is None and max_length is None:
            max_new_tokens = GenerationConfig().max_new_tokens
        check_generation(
            num_beams=chosen["num_beams"],
            num_return_sequences=chosen["num_return_sequences"],
            do_sample=chosen["do_sample"],
            temperature=chosen["temperature"],
            top_k=chosen["top_k"],
            early_stopping=chosen["early_stopping"],
        )
        if ctc_weight is not None and chosen["do_sample"]:
            raise ValueError("ctc_weight has no effect on sampling; leave out do_sample or ctc_weight")
        check_special_ids(self.config, eos_token_id=eos_token_id, pad_token_id=pad_token_id)
        special = self.special_ids
        eos_ids = special.end_ids if eos_token_id is None else one_or_several(eos_token_id)
        pad = padding_of(pad_token_id, special, eos_ids)
        in_encoder = self._opened.family.endswith("encoder_decoder")
        if self._input_name == "input_values":
            prompts = read_waveforms(
                {"input_ids": input_ids, "input_values": input_values, "attention_mask": attention_mask},
                self.config,
                special,
            )
        elif input_values is not None:
            raise ValueError("this model reads no input_values; give input_ids, [batch, length]")
        else:
            prompts = read_prompts(
                input_ids, attention_mask, self.config, special, eos_ids, pad, in_encoder=in_encoder
            )
        num_new = prompts.num_new_tokens(
            self.config,
            max_new_tokens=max_new_tokens,
            max_length=max_length,
        )
        if (fewest := logits_settings.get("min_new_tokens")) is not None and fewest > num_new:
            raise ValueError(
                f"min_new_tokens={fewest} is more than the {num_new} new tokens that there may be"
            )
        processors = read_processors(
            {name: chosen.pop(name) for name in LOGITS_SETTINGS},
            vocab_size=self.config.vocab_size,
            eos_ids=eos_ids,
            num_before=prompts.num_before,
            in_encoder=in_encoder,
        )
        settings = search_settings(**chosen)
        settings |= {
            "max_new_tokens": num_new,
            "eos_token_id": eos_ids,
            "pad_token_id": special.fill if pad is None else pad,
            "processors": processors,
        }
        ctc = None if ctc_weight is None else JointCtc(weight=ctc_weight, end_ids=eos_ids)
        ids, mask = prompts.widened(self.config)
        if chosen["do_sample"]:
            ids, mask = (np.repeat(rows, chosen["num_return_sequences"], axis=0) for rows in (ids, mask))
        key = None
        if chosen["do_sample"]:
            key = _keys(seed, len(ids), chosen["num_return_sequences"])
        elif isinstance(seed, Sequence):
            raise ValueError("seeds of rows have no effect without sampling; give do_sample=True")
        graphdef, params = parameters.split(self.model)
        with self.matmul_precision():
            new, scores = self._generate(
                params,
                ids,
                mask,
                key,
                self._edits,
                graphdef=graphdef,
                settings=tuple(settings.items()),
                ctc=ctc,
            )
        rows = np.asarray(new).reshape(-1, num_new)
        sequences = prompts.sequences(rows, start=special.decoder_start, eos_ids=eos_ids)
        texts = None if text is None else self.decode(rows)
        if not return_dict_in_generate:
            if texts is None:
                return sequences
            return texts[0] if isinstance(text, str) and len(texts) == 1 else texts
        by_sequence = {} if scores is None else {"sequences_scores": np.asarray(scores).reshape(-1)}
        return Outputs(sequences=sequences, **by_sequence, **({} if texts is None else {"texts": texts}))

    def logits_processors(self, num_before: int) -> LogitsProcessors | None:
        """Return the changes of the next token's scores that the model's own files ask for.

        Args:
          num_before: Tokens that the decoder has before it writes.
        """
        return read_processors(
            {name: self._generation_file.get(name) for name in LOGITS_SETTINGS},
            vocab_size=self.config.vocab_size,
            eos_ids=self.special_ids.end_ids,
            num_before=num_before,
            in_encoder=self._opened.family.endswith("encoder_decoder"),
        )

    @functools.cached_property
    def _generation_file(self) -> dict[str, object]:
        return read_generation_file(self._opened.directory, self.fields)

    def _continue(
        self,
        params: Parameters,
        ids: jax.Array,
        mask: jax.Array,
        key: jax.Array,
        edits: Edits,
        *,
        graphdef: nnx.GraphDef,
        settings: tuple[tuple[str, object], ...],
        ctc: JointCtc | None,
    ) -> object:
        model = parameters.merge(graphdef, params)
        if ctc is not None:
            model = JointCtcDecoder(model, ctc)
        start = self.special_ids.decoder_start
        with record(edits=edits):
            return continue_prompts(model, ids, mask, key, start_id=start, settings=dict(settings))


def _keys(seed: int | Sequence[int], num_rows: int, num_sequences: int) -> jax.Array:
    """Return the random keys of rows, of which equal numbers belong to each prompt."""
    for each in seed if isinstance(seed, Sequence) else (seed,):
        check_seed(each)
    if not isinstance(seed, Sequence):
        return row_keys(jax.random.key(seed), num_rows)
    if len(seed) * num_sequences != num_rows:
        raise ValueError(
            f"{len(seed)} seeds for {num_rows // num_sequences} rows; give one for each, or one number"
        )
    return jnp.concatenate([row_keys(jax.random.key(each), num_sequences) for each in seed])
