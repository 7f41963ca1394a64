-- name: skipped_by_reason
-- does: Candidates that the check of their kind rejected, by kind and reason.
-- reads: skipped
-- gives: kind, reason, candidates
-- takes: nothing
SELECT kind, reason, CAST(sum(candidates) AS BIGINT) AS candidates
FROM skipped
GROUP BY kind, reason
ORDER BY candidates DESC, kind, reason
