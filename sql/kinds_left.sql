-- name: kinds_left
-- does: Every kind with the occurrences, distinct values and documents that earlier parts left.
-- reads: occurrences_left (doc_no, kind, value_id)
-- gives: kind, occurrences, distinct_values, documents
-- takes: nothing
WITH counted AS (
    SELECT kind, count(*) AS occurrences
    FROM occurrences_left
    GROUP BY kind
),
held_values AS (
    SELECT kind, count(*) AS distinct_values
    FROM (SELECT DISTINCT kind, value_id FROM occurrences_left) AS v
    GROUP BY kind
),
held AS (
    SELECT kind, count(*) AS documents
    FROM (SELECT DISTINCT kind, doc_no FROM occurrences_left) AS d
    GROUP BY kind
)
SELECT c.kind, c.occurrences, v.distinct_values, h.documents
FROM counted AS c
JOIN held_values AS v ON v.kind = c.kind
JOIN held AS h ON h.kind = c.kind
ORDER BY c.kind
