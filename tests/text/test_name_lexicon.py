import numpy as np

from sanitize.core.arrow_buffers import texts_to_arrow
from sanitize.text.name_lexicon import (
    COMMON_WORD,
    GIVEN_NAME,
    LEXICON_FILE,
    PLACE,
    SURNAME,
    list_flagged_words,
    lookup_words,
)


def test_the_stored_lexicon_is_that_of_the_word_lists() -> None:
    """`make generate` writes it again."""
    assert np.array_equal(np.load(LEXICON_FILE), list_flagged_words())


def test_words_have_the_flags_of_their_lists() -> None:
    text_no, flags = lookup_words(texts_to_arrow(["maria kowalski", "the", "zyqx", "france"]))
    assert text_no.tolist() == [0, 0, 1, 2, 3]
    maria, kowalski, the, unknown, france = flags.tolist()
    assert maria & GIVEN_NAME and kowalski & SURNAME and the & COMMON_WORD and france & PLACE
    assert unknown == 0
