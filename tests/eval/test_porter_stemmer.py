"""Stems equal those of NLTK's variant of Porter's algorithm: a table by step, from the published examples."""

from __future__ import annotations

import pytest

from sanitize.eval.porter_stemmer import porter_stem

# Porter's paper by step (the paper shows each step alone, the table the complete algorithm), and words that NLTK stems differently
TABLE = """
caresses caress  ponies poni  ties tie  dies die  flies fli  caress caress  cats cat
feed feed  agreed agre  plastered plaster  bled bled  motoring motor  sing sing
conflated conflat  troubled troubl  sized size  hopping hop  tanned tan  falling fall  hissing hiss  fizzed fizz
failing fail  filing file  happy happi  sky sky  enjoy enjoy  spied spi  died die  try tri  by by
relational relat  conditional condit  rational ration  valenci valenc  hesitanci hesit  digitizer digit
conformabli conform  radicalli radic  differentli differ  vileli vile  analogousli analog  vietnamization vietnam
predication predic  operator oper  feudalism feudal  decisiveness decis  hopefulness hope  callousness callous
formaliti formal  sensitiviti sensit  sensibiliti sensibl  geology geolog  archaeology archaeolog
triplicate triplic  formative form  formalize formal  electriciti electr  electrical electr  hopeful hope  goodness good
revival reviv  allowance allow  inference infer  airliner airlin  gyroscopic gyroscop  adjustable adjust  defensible defens
irritant irrit  replacement replac  adjustment adjust  dependent depend  adoption adopt  homologou homolog  communism commun
activate activ  angulariti angular  homologous homolog  effective effect  bowdlerize bowdler
probate probat  rate rate  cease ceas  controll control  roll roll
generalizations gener  oscillators oscil  dying die  news news  innings inning  succeed succeed  yyyy yyyi  2024 2024
"""


@pytest.mark.parametrize(("word", "expected"), list(zip(TABLE.split()[::2], TABLE.split()[1::2], strict=True)))
def test_stems(word: str, expected: str) -> None:
    assert porter_stem(word) == expected


def test_a_long_word_is_stemmed() -> None:
    assert len(porter_stem("y" * 5000)) == 5000
