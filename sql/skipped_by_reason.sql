-- name: skipped_by_reason
-- description: Candidates that the check of their kind rejected, by kind and reason.
-- tables: skipped
-- columns: kind, reason, candidates
-- params: none
SELECT kind, reason, CAST(sum(candidates) AS BIGINT) AS candidates
FROM skipped
GROUP BY kind, reason
ORDER BY candidates DESC, kind, reason
