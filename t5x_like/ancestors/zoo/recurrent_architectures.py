"""Architectures of this package, which ``model/zoo/architectures.py`` finds by the name of this module."""

from t5x_like.ancestors.zoo.awd_lstm import AWD_LSTM
from t5x_like.ancestors.zoo.bcn import BCN
from t5x_like.ancestors.zoo.bilstm import BILSTM
from t5x_like.ancestors.zoo.elmo import ELMO
from t5x_like.ancestors.zoo.rnn_seq2seq import RNN_SEQ2SEQ
from t5x_like.model.zoo.architecture import Architecture

ARCHITECTURES: tuple[Architecture, ...] = (AWD_LSTM, BCN, BILSTM, ELMO, RNN_SEQ2SEQ)
