-- name: once
-- does: Values that occur once. RMFT keeps every first occurrence, so this is the share of values that it does not change.
-- reads: value_counts
-- gives: kind, distinct_values, once, share_of_values, share_of_occurrences
-- takes: nothing
WITH counted AS (
    SELECT
        kind,
        count(*) AS distinct_values,
        CAST(sum(CASE WHEN occurrences = 1 THEN 1 ELSE 0 END) AS BIGINT) AS once,
        CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM value_counts
    GROUP BY kind
)
SELECT
    kind,
    distinct_values,
    once,
    round(CAST(once AS DOUBLE) / distinct_values, 4) AS share_of_values,
    round(CAST(once AS DOUBLE) / occurrences, 4) AS share_of_occurrences
FROM counted
ORDER BY once DESC, kind
