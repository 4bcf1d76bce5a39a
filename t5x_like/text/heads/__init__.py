"""Head formats, which read rows for heads of encoders and decoders, and turn their outputs into predictions."""

from t5x_like.text.heads.choice_head import CandidateRanking, MultipleChoice
from t5x_like.text.heads.cloze_head import ClozeClassification, MaskedClozeClassification
from t5x_like.text.heads.entity_head import MentionClassification, MentionTyping
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import InputFraming
from t5x_like.text.heads.multi_label_head import MultiLabelClassification
from t5x_like.text.heads.ranked_answers import RankedAnswers
from t5x_like.text.heads.referent_head import ReferentRanking
from t5x_like.text.heads.sequence_head import Regression, SequenceClassification
from t5x_like.text.heads.span_head import QuestionAnswering
from t5x_like.text.heads.summary_head import ExtractiveSummarization
from t5x_like.text.heads.text_tuple import TextTuple
from t5x_like.text.heads.token_head import TokenClassification

__all__ = [
    "CandidateRanking",
    "ClozeClassification",
    "ExtractiveSummarization",
    "HeadFormat",
    "InputFraming",
    "MaskedClozeClassification",
    "MentionClassification",
    "MentionTyping",
    "MultiLabelClassification",
    "MultipleChoice",
    "QuestionAnswering",
    "RankedAnswers",
    "ReferentRanking",
    "Regression",
    "SequenceClassification",
    "TextTuple",
    "TokenClassification",
]
