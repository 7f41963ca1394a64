-- name: kind_counts
-- description: Every kind: distinct values, occurrences and documents, and the share of its values that occur only once.
-- tables: value_counts, occurrences
-- columns: kind, distinct_values, occurrences, documents, single_occurrence_share
-- params: none
WITH value_totals AS (
    SELECT
        kind,
        count(*) AS distinct_values,
        CAST(sum(occurrences) AS BIGINT) AS occurrences,
        CAST(sum(CASE WHEN occurrences = 1 THEN 1 ELSE 0 END) AS DOUBLE) AS single_occurrence_values
    FROM value_counts
    GROUP BY kind
),
document_counts AS (
    SELECT kind, count(DISTINCT doc_no) AS documents
    FROM occurrences
    GROUP BY kind
)
SELECT
    c.kind,
    c.distinct_values,
    c.occurrences,
    coalesce(h.documents, 0) AS documents,
    round(c.single_occurrence_values / c.distinct_values, 4) AS single_occurrence_share
FROM value_totals AS c
LEFT JOIN document_counts AS h ON h.kind = c.kind
ORDER BY c.occurrences DESC, c.kind
