-- name: kinds
-- does: Every kind: distinct values, occurrences and documents, and the share of its values that occur only once.
-- reads: value_counts, occurrences
-- gives: kind, distinct_values, occurrences, documents, share_once
-- takes: nothing
WITH counted AS (
    SELECT
        kind,
        count(*) AS distinct_values,
        CAST(sum(occurrences) AS BIGINT) AS occurrences,
        CAST(sum(CASE WHEN occurrences = 1 THEN 1 ELSE 0 END) AS DOUBLE) AS once
    FROM value_counts
    GROUP BY kind
),
held AS (
    SELECT kind, count(DISTINCT doc_no) AS documents
    FROM occurrences
    GROUP BY kind
)
SELECT
    c.kind,
    c.distinct_values,
    c.occurrences,
    coalesce(h.documents, 0) AS documents,
    round(c.once / c.distinct_values, 4) AS share_once
FROM counted AS c
LEFT JOIN held AS h ON h.kind = c.kind
ORDER BY c.occurrences DESC, c.kind
