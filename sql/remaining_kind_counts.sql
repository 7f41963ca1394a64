-- name: remaining_kind_counts
-- description: Every kind with the occurrences, distinct values and documents that remain after earlier parts.
-- tables: remaining_occurrences (doc_no, kind, value_id)
-- columns: kind, occurrences, distinct_values, documents
-- params: none
WITH occurrence_counts AS (
    SELECT kind, count(*) AS occurrences
    FROM remaining_occurrences
    GROUP BY kind
),
distinct_value_counts AS (
    SELECT kind, count(*) AS distinct_values
    FROM (SELECT DISTINCT kind, value_id FROM remaining_occurrences) AS v
    GROUP BY kind
),
document_counts AS (
    SELECT kind, count(*) AS documents
    FROM (SELECT DISTINCT kind, doc_no FROM remaining_occurrences) AS d
    GROUP BY kind
)
SELECT c.kind, c.occurrences, v.distinct_values, h.documents
FROM occurrence_counts AS c
JOIN distinct_value_counts AS v ON v.kind = c.kind
JOIN document_counts AS h ON h.kind = c.kind
ORDER BY c.kind
