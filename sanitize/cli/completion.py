"""Names that a shell completes: plans, kinds, named queries. Each function imports what it lists
only when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def complete_words(list_words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A function for `autocompletion=` of typer: the words that begin with what was typed.

    Behind a comma the next word of a list is completed. What was typed stays in front of it, and
    the words of the list are not offered again.
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        given = set(before.split(","))
        return [
            f"{before}{comma}{name}"
            for name in list_words()
            if name.startswith(word) and name not in given
        ]

    return complete


def _list_plans() -> list[str]:
    from sanitize.plans.shipped_plans import plan_names

    return plan_names()


def _list_kinds() -> list[str]:
    from sanitize.kinds.kind import builtin_kinds

    return sorted(builtin_kinds())


def _list_kinds_and_categories() -> list[str]:
    from sanitize.kinds.kind import CATEGORIES

    return [*CATEGORIES, *_list_kinds()]


def _list_queries() -> list[str]:
    from sanitize.storage.queries import load_queries

    return [query.name for query in load_queries().values() if query.is_user_query]


complete_plan = complete_words(_list_plans)
complete_kind = complete_words(_list_kinds)
complete_kinds_and_categories = complete_words(_list_kinds_and_categories)
complete_query = complete_words(_list_queries)
