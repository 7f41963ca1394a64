-- name: drops_by_part
-- description: Documents that the selected run dropped, by part and reason.
-- tables: drops
-- columns: part, reason, documents
-- params: none
SELECT part, reason, count(*) AS documents
FROM drops
GROUP BY part, reason
ORDER BY documents DESC, part NULLS LAST, reason NULLS LAST
