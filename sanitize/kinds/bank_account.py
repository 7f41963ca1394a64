"""Numbers of bank accounts and banks behind their labels, from a user's list or from a model:
account numbers, routing numbers of the US (with their check digit), sort codes, SWIFT codes and
national forms (IFSC, BSB, CLABE, CBU). International account numbers are IBAN_CODE. Normalised
form and surrogates: as for ID_NUMBER."""

from __future__ import annotations

from sanitize.kinds.document_numbers import (
    has_digits,
    is_routing_number,
    make_form,
    make_labelled_kind,
)

KIND = make_labelled_kind(
    name="BANK_ACCOUNT",
    about="a number of a bank account or bank",
    category="financial",
    forms=(
        make_form("routing|aba|aba routing|rtn", "", "[0-9]{9}", is_routing_number),
        make_form(
            "swift|bic|swift code|bic code|swift/bic", "", "[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?"
        ),
        make_form("upi|upi id|vpa", "", "[a-z0-9._-]{2,64}@[a-z]{2,20}"),
        make_form("sort code|sortcode|bsb", "", "[0-9]{2,3}[ -]?[0-9]{2,3}(?:[ -]?[0-9]{2})?"),
        make_form(
            "account|acct|a/c|bank account|checking account|savings account|clabe|cbu|konto|"
            "kontonummer|konto-nr|konto-nr.|blz|bankleitzahl|n° de compte|numéro de compte|compte|"
            "cuenta|número de cuenta|conto|conto corrente|conta|rekening|rekeningnummer|"
            "numer konta|счет|р/с|口座番号|银行账号",
            "",
            "[A-Z]{0,4}-?[0-9](?:[ -]?[0-9]){4,21}",
            has_digits(5),
        ),
    ),
    field_names=tuple(
        (
            "bank account|bank account number|bank account no|account number|account no|"
            "account num|acct number|acct no|kontonummer|konto nr|numero de compte|"
            "compte bancaire|cuenta bancaria|numero de cuenta|conta bancaria|"
            "numero da conta|conto corrente|numero di conto|rekeningnummer|bankrekening|"
            "numer konta|numer rachunku|银行账号|銀行帳號|银行卡号|口座番号|銀行口座"
        ).split("|")
    ),
    aliases=(
        *(
            "ACCOUNTNUM",
            "ACCOUNTNUMBER",
            "BANK_ACCOUNT_NUMBER",
            "ROUTING_NUMBER",
            "ROUTINGNUMBER",
            "BIC",
            "SWIFT",
        ),
        *("BANK_ROUTING_NUMBER", "SORT_CODE"),
    ),
    rank=60,
    hits=(
        ("account 000123456789, routing", "000123456789"),
        ("acct. 12-3456-7890", "12-3456-7890"),
    ),
    near_misses=("0001234567890 A000123456789",),
)
