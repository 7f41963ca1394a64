"""sanitize: index every occurrence of personal data in a text corpus, rewrite it, verify, and
publish clean shards.

The public names below are imported lazily, each when it is first used, so that `import sanitize`
itself costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sanitize.cli.doctor import DoctorResult, doctor
    from sanitize.errors import LeakFound, PlanError, SanitizeError
    from sanitize.inspection.annotation import (
        LabelSample,
        LabelScores,
        MissedEstimate,
        estimate_missed,
        sample_for_labels,
        score_labels,
    )
    from sanitize.inspection.output_diff import diff
    from sanitize.inspection.preview import ExplainResult, explain
    from sanitize.inspection.reproduction import ReplayResult, replay
    from sanitize.inspection.sql_api import StatusResult, sql, status, top
    from sanitize.inspection.text_detection import detect
    from sanitize.inspection.text_functions import redact, redact_batch
    from sanitize.kinds.kind import Kind, list_kinds
    from sanitize.pipeline.erasure.subject_request import SubjectResult, subject
    from sanitize.pipeline.run import index, run
    from sanitize.pipeline.run_results import IndexResult, RunResult
    from sanitize.pipeline.streaming.stream import stream
    from sanitize.pipeline.streaming.stream_result import StreamResult
    from sanitize.plans.plan import Plan
    from sanitize.reporting.diff_page import DiffResult
    from sanitize.reporting.report_data import ReportResult, report
    from sanitize.storage.corpus import Corpus
    from sanitize.verification.published.output_check import VerifyResult, verify

# public name -> module below `sanitize`
_EXPORTS = {
    "Corpus": "storage.corpus",
    "DiffResult": "reporting.diff_page",
    "DoctorResult": "cli.doctor",
    "ExplainResult": "inspection.preview",
    "IndexResult": "pipeline.run_results",
    "Kind": "kinds.kind",
    "LabelSample": "inspection.annotation",
    "LabelScores": "inspection.annotation",
    "LeakFound": "errors",
    "MissedEstimate": "inspection.annotation",
    "Plan": "plans.plan",
    "PlanError": "errors",
    "ReplayResult": "inspection.reproduction",
    "ReportResult": "reporting.report_data",
    "RunResult": "pipeline.run_results",
    "SanitizeError": "errors",
    "StatusResult": "inspection.sql_api",
    "StreamResult": "pipeline.streaming.stream_result",
    "SubjectResult": "pipeline.erasure.subject_request",
    "VerifyResult": "verification.published.output_check",
    "detect": "inspection.text_detection",
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
    "verify": "verification.published.output_check",
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
    return getattr(importlib.import_module(f"sanitize.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
