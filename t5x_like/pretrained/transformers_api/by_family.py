"""How a model of each family is called."""

from typing import Any

from t5x_like.model.families.decoder import Decoder
from t5x_like.model.families.encoder import Encoder
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.model.families.recurrent import Recurrent
from t5x_like.model.families.two_stream import TwoStream
from t5x_like.pretrained.transformers_api import decoder, encoder, encoder_decoder, recurrent, two_stream
from t5x_like.pretrained.transformers_api.call import Call

_CALLS: dict[type, Call] = {
    Decoder: decoder,
    Encoder: encoder,
    EncoderDecoder: encoder_decoder,
    Recurrent: recurrent,
    TwoStream: two_stream,
}


def call_of(model: Any) -> Call:
    """How this model is called."""
    return _CALLS[type(model)]
