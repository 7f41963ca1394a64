-- name: drops_by_part
-- does: Documents that the latest run dropped, by part and reason.
-- reads: drops
-- gives: part, reason, documents
-- takes: nothing
SELECT part, reason, count(*) AS documents
FROM drops
GROUP BY part, reason
ORDER BY documents DESC, part NULLS LAST, reason NULLS LAST
