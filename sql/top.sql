-- name: top
-- does: The values that occur most often, by rank.
-- reads: value_counts, values
-- gives: rank, kind, value, occurrences, documents
-- takes: $kind = 'all', $limit = 20
WITH ranked AS (
    SELECT
        value_id,
        kind,
        occurrences,
        documents,
        row_number() OVER (ORDER BY occurrences DESC, documents DESC, value_id) AS rank
    FROM value_counts
    WHERE $kind = 'all' OR kind = $kind
)
SELECT r.rank, r.kind, max(v.value) AS value, r.occurrences, r.documents
FROM ranked AS r
LEFT JOIN "values" AS v ON v.value_id = r.value_id
WHERE r.rank <= $limit
GROUP BY r.rank, r.kind, r.occurrences, r.documents
ORDER BY r.rank
