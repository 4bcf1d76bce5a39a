"""``from_pretrained``: a checkpoint to be called as transformers' models are."""

import functools
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import PyTree

from t5x_like.inference.beam_search import EarlyStopping
from t5x_like.inference.generator import GenerationConfig, continue_prompts
from t5x_like.inference.length_batches import run_by_length
from t5x_like.inference.logits_processors import LogitsProcessors
from t5x_like.inference.prompt_encoder import PromptEncoder
from t5x_like.inference.sampling import row_keys
from t5x_like.inference.speech_generation import GeneratedSpeech, generate_frames
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.families.family import can_decode
from t5x_like.model.named_activations import HIDDEN_STATES, Edits, as_arguments, record
from t5x_like.model.parameters import Parameters
from t5x_like.model.zoo.model_tasks import GENERATIVE_TASKS, ModelTask
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.checkpoint import Checkpoint, Dtype, check_dtype
from t5x_like.pretrained.hub import local_directory
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.sentence_transformers import (
    Pooling,
    SentenceEmbedding,
    find_sentence_transformer,
)
from t5x_like.pretrained.transformers_api.call import Context, Outputs, hidden_states, to_outputs
from t5x_like.pretrained.transformers_api.call_arguments import (
    argument_names,
    check_generation,
    is_text,
    refuse_unknown,
)
from t5x_like.pretrained.transformers_api.generation import (
    check_special_ids,
    padding_of,
    read_prompts,
    read_waveforms,
    search_settings,
)
from t5x_like.pretrained.transformers_api.generation_defaults import read_generation_file, with_defaults
from t5x_like.pretrained.transformers_api.head_outputs import one_choice
from t5x_like.pretrained.transformers_api.logits_settings import NAMES as LOGITS_SETTINGS
from t5x_like.pretrained.transformers_api.logits_settings import LogitsSettings, read_processors
from t5x_like.pretrained.transformers_api.open_model import OpenModel
from t5x_like.pretrained.transformers_api.speech_call import encoder_batch
from t5x_like.pretrained.transformers_api.speech_requests import (
    Vocoder,
    answer_with_speech,
    read_speech_request,
)


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


class Pretrained(OpenModel):
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
        self._edits: Edits = {}
        self._forward = jax.jit(self._compute, static_argnames=("graphdef", "capture"))
        self._generate = jax.jit(self._continue, static_argnames=("graphdef", "settings"))
        self._generate_speech = jax.jit(self._speak, static_argnames=("graphdef", "ratios"))

    def __call__(
        self, input_ids: object = None, *, output_hidden_states: bool = False, **arguments: object
    ) -> Outputs:
        """Compute what a transformers model of this class computes: arrays in, float32 arrays out, by its names.

        Args:
          input_ids: Token ids, [B, L].
          output_hidden_states: Also return each layer's hidden states.
          **arguments: Arguments of the transformers class. ``attention_mask`` is [B, L] of 0 and 1, or [B, L, L] with 1
            where a position may attend to another. With ``labels`` (-100 where there is none), or what the class has in
            their place, there is a ``loss``.

        Raises:
          ValueError: Values are out of their range, or shapes don't belong together.
          TypeError: The model doesn't take one of the arguments.
        """
        capture = (f"*/{HIDDEN_STATES}",) if output_hidden_states else ()
        outputs, captured = self._run({"input_ids": input_ids, **arguments}, capture)
        if output_hidden_states:
            outputs |= hidden_states(captured, self._opened.family, self.config)
        return to_outputs(outputs)

    def activations(
        self,
        input_ids: Any,
        capture: Sequence[str],
        attention_mask: object = None,
        **arguments: Any,
    ) -> dict[str, np.ndarray]:
        """Return activations of all layers by name; ``t5x_like.model.named_activations`` has the names and shapes.

        >>> pretrained.activations("The capital of France is", ["decoder/feed_forward/activations"])

        Args:
          input_ids: Token ids [B, L], or a text or list of texts, which are padded on the right.
          capture: Names, or patterns such as ``"*/hidden_states"``.
          attention_mask: Mask with 1 where a token is real, [B, L]; made for texts.
          **arguments: Other arguments of a call. An encoder-decoder's decoder reads its start token alone if none says
            otherwise.

        Returns:
          Arrays of float32 with a leading axis of layers.

        Raises:
          ValueError: A name or pattern matches nothing; names the activations that there are.
        """
        if is_text(input_ids):
            return self.activations(
                capture=capture, **self.encode(input_ids, padding_side="right"), **arguments
            )
        if isinstance(capture, str) or not capture:
            raise ValueError(f"capture is {capture!r}; give a list of names, such as ['*/{HIDDEN_STATES}']")
        if attention_mask is not None:
            arguments["attention_mask"] = attention_mask
        arguments = {"input_ids": input_ids, **self._decoder_start(input_ids), **arguments}
        return dict(to_outputs(self._run(arguments, tuple(capture))[1]))

    @contextmanager
    def edited(self, edits: Edits) -> Iterator[None]:
        """Edit activations in all calls inside of the context, in ``generate`` and ``embed`` too.

        >>> with pretrained.edited({"decoder/feed_forward/activations": AffineEdit(factors=factors)}):
        ...     pretrained.generate("The capital of France is")

        Args:
          edits: Edits by name or pattern: an ``AffineEdit`` of arrays by layer, or a function of an activation and the
            number of its layer. While generating, an activation is that of the new tokens.

        Raises:
          ValueError: At a call, if a name or pattern matches nothing or a shape doesn't fit.
        """
        before, self._edits = self._edits, as_arguments({**self._edits, **edits})
        try:
            yield
        finally:
            self._edits = before

    def embed(
        self,
        input_ids: Any,
        attention_mask: object = None,
        *,
        pooling: Pooling | None = None,
        normalized: bool | None = None,
        dimensions: int | None = None,
        batch_size: int | None = None,
        **arguments: Any,
    ) -> np.ndarray:
        """Return a vector for each text (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084).

        Args:
          input_ids: Token ids [B, L], or a text or list of texts.
          attention_mask: Mask with 1 where a token is real, [B, L]; made for texts.
          pooling: Mean or maximum over a text's tokens, a mean whose weights rise with the position, or the state of
            its first or last token. If not given, that of ``sentence_embedding``, else the mean.
          normalized: Scale vectors to length 1, so that inner products are cosines. If not given, that of
            ``sentence_embedding``, else True.
          dimensions: Number of the first dimensions to keep, for models that were trained for several widths.
          batch_size: Number of texts that are read together, those of similar length; all of them if not given.
          **arguments: Other arguments of a call, such as ``token_type_ids``.

        Returns:
          Array of float32 [B, D]; [D] for a single string.

        Raises:
          ValueError: A text has no token, vectors are not finite, or they have fewer dimensions.
        """
        settings = self.sentence_embedding or SentenceEmbedding()
        options = {"pooling": pooling, "normalized": normalized}
        settings = replace(settings, **{name: value for name, value in options.items() if value is not None})
        if is_text(input_ids):
            vectors = self._embed_texts(
                one_or_several(input_ids), settings, dimensions, batch_size, arguments
            )
            return vectors[0] if isinstance(input_ids, str) else vectors
        if batch_size is not None:
            raise ValueError(f"batch_size={batch_size} is for texts; give token ids in batches of your own")
        if attention_mask is not None:
            arguments["attention_mask"] = attention_mask
        # An encoder-decoder embeds by its encoder. To a model of choices each text is the only one of its example.
        arguments = self._decoder_start(input_ids) | arguments
        if self.config.task == "multiple_choice":
            input_ids, arguments = one_choice(input_ids, arguments)
        outputs = self(input_ids, **arguments)
        states = outputs.get("encoder_last_hidden_state")
        states = outputs["last_hidden_state"] if states is None else states
        real = np.ones(states.shape[:2], bool) if attention_mask is None else np.asarray(attention_mask) > 0
        return settings.vectors(states, real, dimensions=dimensions)

    @property
    def embedding_encoder(self) -> PromptEncoder:
        """Encoder of texts whose vectors are compared."""
        opened = self._opened
        return opened.prompt_encoder if self.sentence_embedding is None else opened.embedding_encoder

    def embedding_ids(self, text: str) -> list[int]:
        """Return the token ids of a text as ``embed`` reads it, cut and with special ids.

        Raises:
          ValueError: There is no tokenizer, or the text has no token.
        """
        settings = self.sentence_embedding or SentenceEmbedding()
        ids = self.embedding_encoder.encode(settings.word(text), settings.max_length)
        if not ids:
            raise ValueError(f"{text!r} has no token; give a text, or a list of at least one text")
        return ids

    def _embed_texts(
        self,
        texts: Sequence[str],
        settings: SentenceEmbedding,
        dimensions: int | None,
        batch_size: int | None,
        arguments: dict[str, Any],
    ) -> np.ndarray:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; give 1 or more")
        if not texts:
            raise ValueError("there is no text to embed; give a text, or a list of at least one text")
        rows = [self.embedding_ids(text) for text in texts]

        def run(numbers: Sequence[int]) -> list[np.ndarray]:
            encoded = self.padded([rows[number] for number in numbers], padding_side="right")
            return list(
                self.embed(
                    **encoded,
                    pooling=settings.pooling,
                    normalized=settings.normalized,
                    dimensions=dimensions,
                    **arguments,
                )
            )

        if batch_size is None or batch_size >= len(rows):
            return np.stack(run(range(len(rows))))
        return np.stack(run_by_length([len(row) for row in rows], batch_size, run))

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
            advice = "; call generate_speech" if getattr(self.config, "writes_speech", False) else ""
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
                params, ids, mask, key, self._edits, graphdef=graphdef, settings=tuple(settings.items())
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

    def generate_speech(
        self,
        input_ids: Any = None,
        speaker_embeddings: object = None,
        attention_mask: object = None,
        *,
        input_values: object = None,
        threshold: float = 0.5,
        minlenratio: float = 0.0,
        maxlenratio: float = 20.0,
        vocoder: Vocoder | None = None,
        return_output_lengths: bool = False,
        seed: int = 0,
    ) -> Any:
        """Generate the spectrograms of texts, or of speech in another voice, until a stop flag.

        >>> pretrained = t5x_like.from_pretrained("path/to/speecht5_tts")
        >>> pretrained.generate_speech(ids, speaker_embeddings=vector)

        Arguments and defaults are transformers'. The net before the decoder drops units at every step, as it did in
        training: another seed gives other speech.

        Args:
          input_ids: Token ids [B, M], or a text or list of texts; waveforms [B, S] for a model that reads speech.
          speaker_embeddings: Vectors of speakers, [B, E] or [1, E]; zeros for speech to speech if not given.
          attention_mask: Mask with 1 for real tokens or samples; padding of ids is left out without it.
          input_values: Waveforms [B, S], in place of ``input_ids``.
          threshold: A row ends where the probabilities of a step's stop flags sum to this.
          minlenratio: Fewest frames for each of the encoder's outputs.
          maxlenratio: Most frames for each of the encoder's outputs.
          vocoder: Function from a spectrogram, or a padded batch of them, to waveforms.
          return_output_lengths: Return the number of frames or samples of each row, too.
          seed: Seed of the units that are kept.

        Returns:
          Spectrogram [T, E] for one row, or [B, T, E] with zeros after shorter ones. With a vocoder, its waveforms.
          With ``return_output_lengths``, always a batch, and the list of lengths.

        Raises:
          ValueError: The model writes no speech, it needs a speaker, or arguments make no sense.
        """
        if is_text(input_ids):
            encoded = self.encode(input_ids, padding_side="right")
            input_ids, attention_mask = encoded["input_ids"], encoded["attention_mask"]
        arguments = {
            "input_ids": input_ids,
            "input_values": input_values,
            "attention_mask": attention_mask,
            "speaker_embeddings": speaker_embeddings,
        }
        pad = self.special_ids.pad
        inputs = read_speech_request(
            arguments, self.config, pad=pad, min_ratio=minlenratio, max_ratio=maxlenratio
        )
        graphdef, params = parameters.split(self.model)
        with self.matmul_precision():
            generated = self._generate_speech(
                params,
                inputs,
                jax.random.key(seed),
                threshold,
                self._edits,
                graphdef=graphdef,
                ratios=(minlenratio, maxlenratio),
            )
        frames, lengths = map(np.asarray, generated)
        return answer_with_speech(frames, lengths, vocoder=vocoder, with_lengths=return_output_lengths)

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

    def _decoder_start(self, input_ids: Sized) -> dict[str, object]:
        """Return the shortest input of a decoder that reads an encoder's output, as an argument of a call."""
        if "decoder_input_ids" not in self._call.ARGUMENTS:
            return {}
        return {"decoder_input_ids": np.full((len(input_ids), 1), self.special_ids.decoder_start, np.int32)}

    def _run(
        self, arguments: dict[str, object], capture: tuple[str, ...]
    ) -> tuple[dict[str, PyTree], dict[str, jax.Array]]:
        """Return outputs of a call by transformers' names, and captured activations."""
        refuse_unknown(
            {name: each for name, each in arguments.items() if name != "input_ids"}, self._call.ARGUMENTS
        )
        if all(arguments.get(name) is None for name in ("input_ids", "input_values", "encoder_outputs")):
            raise ValueError(f"give {self._input_name}, [batch, length]")
        inputs = self._call.read(arguments, Context(self.config, self.special_ids))
        graphdef, params = parameters.split(self.model)
        with self.matmul_precision():
            return self._forward(params, inputs, self._edits, graphdef=graphdef, capture=capture)

    def _compute(
        self,
        params: Parameters,
        inputs: dict[str, PyTree],
        edits: Edits,
        *,
        graphdef: nnx.GraphDef,
        capture: tuple[str, ...],
    ) -> tuple[dict[str, PyTree], dict[str, jax.Array]]:
        with record(capture, edits) as captured:
            outputs = self._call.compute(parameters.merge(graphdef, params), self.config, inputs)
        return outputs, captured

    @property
    def _input_name(self) -> str:
        return "input_values" if getattr(self.config, "reads_speech", False) else "input_ids"

    def _speak(
        self,
        params: Parameters,
        inputs: dict[str, jax.Array],
        key: jax.Array,
        threshold: float,
        edits: Edits,
        *,
        graphdef: nnx.GraphDef,
        ratios: tuple[float, float],
    ) -> GeneratedSpeech:
        model = parameters.merge(graphdef, params)
        with record(edits=edits):
            return generate_frames(
                model,
                encoder_batch(inputs),
                inputs["speakers"],
                key,
                threshold=threshold,
                min_ratio=ratios[0],
                max_ratio=ratios[1],
            )

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
    ) -> object:
        model = parameters.merge(graphdef, params)
        start = self.special_ids.decoder_start
        with record(edits=edits):
            return continue_prompts(model, ids, mask, key, start_id=start, settings=dict(settings))


def _keys(seed: int | Sequence[int], num_rows: int, num_sequences: int) -> jax.Array:
    """Return the random keys of rows, of which equal numbers belong to each prompt."""
    if not isinstance(seed, Sequence):
        return row_keys(jax.random.key(seed), num_rows)
    if len(seed) * num_sequences != num_rows:
        raise ValueError(
            f"{len(seed)} seeds for {num_rows // num_sequences} rows; give one for each, or one number"
        )
    return jnp.concatenate([row_keys(jax.random.key(each), num_sequences) for each in seed])
