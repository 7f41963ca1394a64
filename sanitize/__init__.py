"""sanitize: index every occurrence of personal data in a text corpus, rewrite it, verify, and publish clean shards.

The public names below are imported lazily, each when it is first used, so that `import sanitize` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sanitize.cli.doctor import doctor
    from sanitize.errors import LeakFound, PlanError, SanitizeError
    from sanitize.inspection.annotation import label
    from sanitize.inspection.preview import explain
    from sanitize.inspection.reproduction import replay
    from sanitize.inspection.sql_api import sql, status, top
    from sanitize.kinds.kind import Kind, list_kinds
    from sanitize.pipeline.erasure.subject_request import subject
    from sanitize.pipeline.run import find, run
    from sanitize.pipeline.streaming.stream import stream
    from sanitize.plans.plan import Plan, load_plan
    from sanitize.plans.settings import Settings
    from sanitize.readers.column_policies import Columns
    from sanitize.readers.survey import Roles
    from sanitize.reporting.report_data import report
    from sanitize.storage.corpus import Corpus
    from sanitize.verification.leak_check import verify

# public name -> module below `sanitize`, or "module:name" where the name in the module differs
_EXPORTS = {
    "Columns": "readers.column_policies",
    "Corpus": "storage.corpus",
    "Kind": "kinds.kind",
    "LeakFound": "errors",
    "Plan": "plans.plan",
    "PlanError": "errors",
    "Roles": "readers.survey",
    "SanitizeError": "errors",
    "Settings": "plans.settings",
    "doctor": "cli.doctor",
    "explain": "inspection.preview",
    "find": "pipeline.run",
    "label": "inspection.annotation",
    "list_kinds": "kinds.kind",
    "load_plan": "plans.plan",
    "replay": "inspection.reproduction",
    "report": "reporting.report_data",
    "run": "pipeline.run",
    "sql": "inspection.sql_api",
    "status": "inspection.sql_api",
    "stream": "pipeline.streaming.stream",
    "subject": "pipeline.erasure.subject_request",
    "top": "inspection.sql_api",
    "verify": "verification.leak_check",
}

__all__ = [
    "Columns",
    "Corpus",
    "Kind",
    "LeakFound",
    "Plan",
    "PlanError",
    "Roles",
    "SanitizeError",
    "Settings",
    "doctor",
    "explain",
    "find",
    "label",
    "list_kinds",
    "load_plan",
    "replay",
    "report",
    "run",
    "sql",
    "status",
    "stream",
    "subject",
    "top",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("corpus-sanitize")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sanitize' has no attribute {name!r}")
    module, _, name_in_module = _EXPORTS[name].partition(":")
    return getattr(importlib.import_module(f"sanitize.{module}"), name_in_module or name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
