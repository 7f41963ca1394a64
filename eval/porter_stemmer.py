"""Porter's stemmer for English words (An algorithm for suffix stripping, Program 14(3), 1980).

Gives the same stems as `rouge_score`, which uses NLTK's variant of the algorithm: Porter's own later changes, a few irregular words, and
gentler rules for short words and for -y, -ied and -ies. Those two packages would add 19 MB for this one function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

_VOWELS = frozenset("aeiou")
_IRREGULAR = {
    word: stem
    for stem, words in {
        "sky": ["sky", "skies"],
        "die": ["dying"],
        "lie": ["lying"],
        "tie": ["tying"],
        "news": ["news"],
        "inning": ["innings", "inning"],
        "outing": ["outings", "outing"],
        "canning": ["cannings", "canning"],
        "howe": ["howe"],
        "proceed": ["proceed"],
        "exceed": ["exceed"],
        "succeed": ["succeed"],
    }.items()
    for word in words
}
SuffixRule = tuple[str, str, Callable[[str], bool] | None]


@lru_cache(maxsize=65536)
def porter_stem(word: str) -> str:
    """Return the stem of a lower-case word; words of one or two letters are unchanged."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (_step_1a, _step_1b, _step_1c, _step_2, _step_3, _step_4, _step_5a, _step_5b):
        word = step(word)
    return word


def _is_consonant(word: str) -> list[bool]:
    """Return for each letter whether it is a consonant: not a vowel, and a y only if it does not follow a consonant."""
    kinds: list[bool] = []
    for letter in word:
        kinds.append(letter not in _VOWELS and not (letter == "y" and bool(kinds) and kinds[-1]))
    return kinds


def _measure(stem: str) -> int:
    """Return Porter's m, the number of times that a vowel is followed by a consonant."""
    kinds = _is_consonant(stem)
    return sum(not before and after for before, after in zip(kinds, kinds[1:], strict=False))


def _has_measure(stem: str) -> bool:
    return _measure(stem) > 0


def _has_vowel(stem: str) -> bool:
    return not all(_is_consonant(stem))


def _ends_double_consonant(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _is_consonant(word)[-1]


def _ends_cvc(word: str) -> bool:
    """Porter's *o: consonant-vowel-consonant, the last not w, x or y; a two-letter word of vowel and consonant counts as well."""
    kinds = _is_consonant(word)
    return kinds == [False, True] or (kinds[-3:] == [True, False, True] and word[-1] not in "wxy")


def _apply_rules(word: str, rules: Sequence[SuffixRule]) -> str:
    """Apply the first rule whose ending the word has; if that rule's condition does not hold, return the word unchanged."""
    for ending, other, condition in rules:
        if word.endswith(ending):
            rest = word[: len(word) - len(ending)]
            return rest + other if condition is None or condition(rest) else word
    return word


def _step_1a(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-3] + "ie"
    return _apply_rules(word, [("sses", "ss", None), ("ies", "i", None), ("ss", "ss", None), ("s", "", None)])


def _step_1b(word: str) -> str:
    if word.endswith("ied"):
        return word[:-3] + ("ie" if len(word) == 4 else "i")
    if word.endswith("eed"):
        return word[:-3] + "ee" if _has_measure(word[:-3]) else word
    for ending in ("ed", "ing"):
        if word.endswith(ending):
            rest = word[: len(word) - len(ending)]
            if _has_vowel(rest):
                break
    else:
        return word
    for ending in ("at", "bl", "iz"):
        if rest.endswith(ending):
            return rest + "e"
    if _ends_double_consonant(rest):
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_cvc(rest) else rest


def _step_1c(word: str) -> str:
    """y becomes i after a consonant that is not the first letter."""
    return _apply_rules(word, [("y", "i", lambda rest: len(rest) > 1 and _is_consonant(rest)[-1])])


def _step_2(word: str) -> str:
    if word.endswith("alli") and _has_measure(word[:-4]):
        return _step_2(word[:-4] + "al")
    return _apply_rules(
        word,
        [
            *(
                (ending, other, _has_measure)
                for ending, other in (("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"))
            ),
            *(
                (ending, other, _has_measure)
                for ending, other in (("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"))
            ),
            *((ending, other, _has_measure) for ending, other in (("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"))),
            *(
                (ending, other, _has_measure)
                for ending, other in (("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"))
            ),
            *((ending, other, _has_measure) for ending, other in (("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"))),
            ("logi", "log", lambda rest: _has_measure(word[:-3])),
        ],
    )


def _step_3(word: str) -> str:
    endings = (("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""))
    return _apply_rules(word, [(ending, other, _has_measure) for ending, other in endings])


def _step_4(word: str) -> str:
    def long(rest: str) -> bool:
        return _measure(rest) > 1

    before = ("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent")
    after = ("ou", "ism", "ate", "iti", "ous", "ive", "ize")
    return _apply_rules(
        word,
        [
            *((ending, "", long) for ending in before),
            ("ion", "", lambda rest: long(rest) and rest.endswith(("s", "t"))),
            *((ending, "", long) for ending in after),
        ],
    )


def _step_5a(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _ends_cvc(rest)):
            return rest
    return word


def _step_5b(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
