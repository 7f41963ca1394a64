-- name: growth
-- does: Growth of the number of distinct values of a kind over the corpus, cut into $steps equal ranges of documents: documents,
--       occurrences and distinct values so far, and the share of a range's occurrences that show a value for the first time.
-- reads: occurrences, value_counts
-- gives: kind, documents, occurrences, distinct_values, share_new
-- takes: $kind = 'all', $steps = 10
WITH size AS (
    SELECT max(doc_no) + 1 AS documents, CASE WHEN $steps < 1 THEN 1 ELSE $steps END AS steps
    FROM occurrences
),
placed AS (
    SELECT o.kind, CAST(floor(CAST(o.doc_no AS DOUBLE) * s.steps / s.documents) AS BIGINT) AS step, count(*) AS occurrences
    FROM occurrences AS o
    CROSS JOIN size AS s
    WHERE $kind = 'all' OR o.kind = $kind
    GROUP BY o.kind, step
),
new AS (
    SELECT v.kind, CAST(floor(CAST(v.first_doc_no AS DOUBLE) * s.steps / s.documents) AS BIGINT) AS step, count(*) AS distinct_values
    FROM value_counts AS v
    CROSS JOIN size AS s
    GROUP BY v.kind, step
),
joined AS (
    SELECT p.kind, p.step, p.occurrences, coalesce(n.distinct_values, 0) AS distinct_values
    FROM placed AS p
    LEFT JOIN new AS n ON n.kind = p.kind AND n.step = p.step
)
SELECT
    j.kind,
    CAST(ceil(CAST(j.step + 1 AS DOUBLE) * s.documents / s.steps) AS BIGINT) AS documents,
    CAST(sum(j.occurrences) OVER (PARTITION BY j.kind ORDER BY j.step ROWS UNBOUNDED PRECEDING) AS BIGINT) AS occurrences,
    CAST(sum(j.distinct_values) OVER (PARTITION BY j.kind ORDER BY j.step ROWS UNBOUNDED PRECEDING) AS BIGINT) AS distinct_values,
    round(CAST(j.distinct_values AS DOUBLE) / j.occurrences, 4) AS share_new
FROM joined AS j
CROSS JOIN size AS s
ORDER BY j.kind, documents
