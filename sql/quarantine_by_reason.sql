-- name: quarantine_by_reason
-- does: Quarantined records, by reason and input file.
-- reads: quarantine
-- gives: reason, source, records
-- takes: nothing
SELECT reason, source, count(*) AS records
FROM quarantine
GROUP BY reason, source
ORDER BY records DESC, reason NULLS LAST, source NULLS LAST
