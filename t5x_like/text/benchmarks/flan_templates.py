"""Instructions for the tasks of ``flan``, three for each kind of task, and answers in words. The sentences are ours."""

ENTAILS = (
    "{premise}\nFrom this alone, can we conclude that the following is true? {hypothesis}",
    "Read the text and judge the statement.\nText: {premise}\nStatement: {hypothesis}\nDoes the statement follow?",
    'Suppose that "{premise}" is right. Must "{hypothesis}" be right, too?',
)
SURE = {"entailment": "yes", "not_entailment": "no"}
UNSURE = {"entailment": "yes", "neutral": "it is not possible to tell", "contradiction": "no"}
ANSWERS_IT = (
    "Question: {question}\nSentence: {sentence}\nDoes the sentence answer the question?",
    "{sentence}\nIs that enough to answer this? {question}",
    'Someone asks "{question}" and reads "{sentence}". Has the reader found the answer?',
)
SENTIMENT = (
    "{text}\nIs this review negative or positive?",
    'What did the author of "{text}" think of the film?',
    "Name the sentiment of these words about a film.\n{text}",
)
SAME = (
    "First: {first}\nSecond: {second}\nDo both say the same?",
    'Does "{first}" mean the same as "{second}"?',
    "Compare two texts and decide whether their meanings agree.\n{first}\n{second}",
)
SAME_QUESTION = (
    "{first}\n{second}\nWould one answer serve both questions?",
    'Is "{first}" the same question as "{second}"?',
    "Decide whether two people want to know the same.\nOne asks: {first}\nThe other asks: {second}",
)
SIMILARITY = (
    "From 0 (unrelated) to 5 (equal), how close in meaning are these sentences?\n{first}\n{second}",
    'Rate the similarity of "{first}" and "{second}" by a number from 0 to 5.',
    "{first}\n{second}\nGive a number between 0 and 5 for how much the two sentences have in common.",
)
CAUSE = (
    "{premise}\nWhich of these is more likely its {question}?",
    'Find the {question} of this event: "{premise}"',
    "Something happened: {premise} Choose the sentence that names its {question}.",
)
CONTINUE = (
    "{context}\nWhich ending fits best?",
    "How does this continue? {context}",
    "Pick the most sensible continuation.\n{context}",
)
BY_HEART = (
    "{question}",
    "Answer from what you know: {question}",
    "Give a short answer to this question.\n{question}",
)
YES_NO = (
    "{passage}\nSo, {question}?",
    "Answer by yes or no, from the text below: {question}?\n{passage}",
    "Text: {passage}\nQuestion: {question}?",
)
READ = (
    "{context}\nQuestion: {question}",
    "Find the answer in the text.\nText: {context}\nQuestion: {question}",
    "{question}\nThe answer is in this paragraph: {context}",
)
IS_RIGHT = (
    "{context}\nQuestion: {question}\nIs this a right answer? {answer}",
    'Does "{answer}" answer "{question}", going by the following?\n{context}',
    "Check an answer against a text.\nText: {context}\nQuestion: {question}\nAnswer: {answer}",
)
GAP = (
    "{passage}\nWho or what is meant by @placeholder? {query}",
    "Fill the gap @placeholder with a name from the text.\nText: {passage}\nSentence: {query}",
    "{query}\nWhich name belongs in place of @placeholder, given this news?\n{passage}",
)
REFERENT = (
    '{sentence}\nWho or what is "{pronoun}"?',
    'In the sentence "{sentence}", name the one that "{pronoun}" refers to.',
    "Resolve the pronoun {pronoun}.\n{sentence}",
)
BLANK = (
    "{sentence}\nWhat belongs in place of the underscore?",
    "Complete the sentence: {sentence}",
    'Which word makes sense at the underscore of "{sentence}"?',
)
CONVERSATION = (
    "{story}\n{conversation}Question: {question}\nAnswer:",
    "Continue this conversation about a story.\nStory: {story}\n{conversation}Question: {question}\nAnswer:",
    "Read the story, then answer the last question.\n{story}\n{conversation}Question: {question}\nAnswer:",
)
ACCEPTABLE = (
    "{sentence}\nIs this an acceptable English sentence?",
    'Would a speaker of English accept "{sentence}"?',
    "Judge the grammar of the following.\n{sentence}",
)
SENSE = (
    '{first}\n{second}\nDoes "{word}" have the same sense in both?',
    'Is the word "{word}" used alike in "{first}" and in "{second}"?',
    'Compare the meanings of "{word}".\nOnce: {first}\nAgain: {second}\nAre they equal?',
)
SUMMARIZE = (
    "{text}\nSummarize this article.",
    "What are the main points of the following?\n{text}",
    "Write a short summary of the news below.\n{text}",
)
TRANSLATE = (
    "Translate into {language}: {text}",
    'How do you say "{text}" in {language}?',
    "{text}\nWrite this in {language}.",
)
GOOD_OR_BAD = {"negative": "negative", "positive": "positive"}
