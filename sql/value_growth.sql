-- name: value_growth
-- description: Growth of the number of distinct values of a kind over the corpus, cut into $steps equal ranges of documents: cumulative
--              documents, occurrences and distinct values, and the share of a range's occurrences in which a value occurs for the first
--              time.
-- tables: occurrences, value_counts
-- columns: kind, documents, occurrences, distinct_values, share_new
-- params: $kind = 'all', $steps = 10
WITH corpus_size AS (
    SELECT max(doc_no) + 1 AS documents, CASE WHEN $steps < 1 THEN 1 ELSE $steps END AS steps
    FROM occurrences
),
occurrence_counts AS (
    SELECT o.kind, CAST(floor(CAST(o.doc_no AS DOUBLE) * s.steps / s.documents) AS BIGINT) AS step, count(*) AS occurrences
    FROM occurrences AS o
    CROSS JOIN corpus_size AS s
    WHERE $kind = 'all' OR o.kind = $kind
    GROUP BY o.kind, step
),
new_value_counts AS (
    SELECT v.kind, CAST(floor(CAST(v.first_doc_no AS DOUBLE) * s.steps / s.documents) AS BIGINT) AS step, count(*) AS distinct_values
    FROM value_counts AS v
    CROSS JOIN corpus_size AS s
    GROUP BY v.kind, step
),
step_counts AS (
    SELECT p.kind, p.step, p.occurrences, coalesce(n.distinct_values, 0) AS distinct_values
    FROM occurrence_counts AS p
    LEFT JOIN new_value_counts AS n ON n.kind = p.kind AND n.step = p.step
)
SELECT
    j.kind,
    CAST(ceil(CAST(j.step + 1 AS DOUBLE) * s.documents / s.steps) AS BIGINT) AS documents,
    CAST(sum(j.occurrences) OVER (PARTITION BY j.kind ORDER BY j.step ROWS UNBOUNDED PRECEDING) AS BIGINT) AS occurrences,
    CAST(sum(j.distinct_values) OVER (PARTITION BY j.kind ORDER BY j.step ROWS UNBOUNDED PRECEDING) AS BIGINT) AS distinct_values,
    round(CAST(j.distinct_values AS DOUBLE) / j.occurrences, 4) AS share_new
FROM step_counts AS j
CROSS JOIN corpus_size AS s
ORDER BY j.kind, documents
