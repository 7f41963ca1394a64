-- name: quarantine_by_reason
-- description: Quarantined records, by reason and input file.
-- tables: quarantine
-- columns: reason, source, records
-- params: none
SELECT reason, source, count(*) AS records
FROM quarantine
GROUP BY reason, source
ORDER BY records DESC, reason NULLS LAST, source NULLS LAST
