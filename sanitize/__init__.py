"""sanitize: index every occurrence of personal data in a text corpus, rewrite it, verify, and
publish clean shards.

The public names below are imported lazily, each when it is first used, so that `import sanitize`
itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sanitize.cli.doctor import doctor
    from sanitize.core.command_results import (
        DiffResult,
        DoctorResult,
        ExplainResult,
        IndexResult,
        LabelSample,
        LabelScores,
        MissedEstimate,
        ReplayResult,
        ReportResult,
        RunResult,
        StatusResult,
        StreamResult,
        SubjectResult,
        VerifyResult,
    )
    from sanitize.errors import LeakFound, PlanError, SanitizeError
    from sanitize.inspection.annotation import estimate_missed, sample_for_labels, score_labels
    from sanitize.inspection.output_diff import diff
    from sanitize.inspection.preview import explain
    from sanitize.inspection.reproduction import replay
    from sanitize.inspection.sql_api import sql, status, top
    from sanitize.inspection.text_functions import detect, redact, redact_batch
    from sanitize.kinds.kind import Kind, list_kinds
    from sanitize.pipeline.erasure.subject_request import subject
    from sanitize.pipeline.run import index, run
    from sanitize.pipeline.streaming.stream import stream
    from sanitize.plans.plan import Plan
    from sanitize.reporting.report_data import report
    from sanitize.storage.corpus import Corpus
    from sanitize.verification.leak_check import verify

# public name -> module below `sanitize`, or "module:name" where the name in the module differs
_EXPORTS = {
    "Corpus": "storage.corpus",
    "DiffResult": "core.command_results",
    "DoctorResult": "core.command_results",
    "ExplainResult": "core.command_results",
    "IndexResult": "core.command_results",
    "Kind": "kinds.kind",
    "LabelSample": "core.command_results",
    "LabelScores": "core.command_results",
    "LeakFound": "errors",
    "MissedEstimate": "core.command_results",
    "Plan": "plans.plan",
    "PlanError": "errors",
    "ReplayResult": "core.command_results",
    "ReportResult": "core.command_results",
    "RunResult": "core.command_results",
    "SanitizeError": "errors",
    "StatusResult": "core.command_results",
    "StreamResult": "core.command_results",
    "SubjectResult": "core.command_results",
    "VerifyResult": "core.command_results",
    "detect": "inspection.text_functions",
    "diff": "inspection.output_diff",
    "doctor": "cli.doctor",
    "estimate_missed": "inspection.annotation",
    "explain": "inspection.preview",
    "index": "pipeline.run",
    "list_kinds": "kinds.kind",
    "redact": "inspection.text_functions",
    "redact_batch": "inspection.text_functions",
    "replay": "inspection.reproduction",
    "report": "reporting.report_data",
    "run": "pipeline.run",
    "sample_for_labels": "inspection.annotation",
    "score_labels": "inspection.annotation",
    "sql": "inspection.sql_api",
    "status": "inspection.sql_api",
    "stream": "pipeline.streaming.stream",
    "subject": "pipeline.erasure.subject_request",
    "top": "inspection.sql_api",
    "verify": "verification.leak_check",
}

__all__ = [
    "Corpus",
    "DiffResult",
    "DoctorResult",
    "ExplainResult",
    "IndexResult",
    "Kind",
    "LabelSample",
    "LabelScores",
    "LeakFound",
    "MissedEstimate",
    "Plan",
    "PlanError",
    "ReplayResult",
    "ReportResult",
    "RunResult",
    "SanitizeError",
    "StatusResult",
    "StreamResult",
    "SubjectResult",
    "VerifyResult",
    "detect",
    "diff",
    "doctor",
    "estimate_missed",
    "explain",
    "index",
    "list_kinds",
    "redact",
    "redact_batch",
    "replay",
    "report",
    "run",
    "sample_for_labels",
    "score_labels",
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
