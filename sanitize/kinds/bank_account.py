"""Numbers of bank accounts and banks without a check of their own (account and routing numbers),
reported from a user's list or by a model; there is no pattern. International account numbers are
IBAN_CODE. Normalised form and surrogates: as for ID_NUMBER."""

from __future__ import annotations

from sanitize.kinds.id_number import is_distinctive, make_surrogates, normalise_number
from sanitize.kinds.kind import Kind

KIND = Kind(
    name="BANK_ACCOUNT",
    about="a number of a bank account or bank, from a list or a model",
    category="financial",
    field_names=tuple(
        (
            "bank account|bank account number|bank account no|account number|account no|"
            "account num|acct number|acct no|kontonummer|konto nr|numero de compte|"
            "compte bancaire|cuenta bancaria|numero de cuenta|conta bancaria|"
            "numero da conta|conto corrente|numero di conto|rekeningnummer|bankrekening|"
            "numer konta|numer rachunku|银行账号|銀行帳號|银行卡号|口座番号|銀行口座"
        ).split("|")
    ),
    accepts_in_field=lambda values: values.str.contains(
        r"\A(?:[A-Z]{2}[0-9]{2} ?)?[0-9](?:[ -]?[0-9A-Z]){3,33}\z"
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
    pattern="",
    normalise=normalise_number,
    make_surrogates=make_surrogates,
    is_distinctive=is_distinctive,
    rank=94,
    hits=(
        ("account 000123456789, routing", "000123456789"),
        ("acct. 12-3456-7890", "12-3456-7890"),
    ),
    near_misses=("0001234567890 A000123456789",),
)
