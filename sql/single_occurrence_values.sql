-- name: single_occurrence_values
-- description: Number of values that occur once, by kind. RMFT keeps every first occurrence: this is the share of values that it does not
--              change.
-- tables: value_counts
-- columns: kind, distinct_values, single_occurrence_values, share_of_values, share_of_occurrences
-- params: none
WITH value_totals AS (
    SELECT
        kind,
        count(*) AS distinct_values,
        CAST(sum(CASE WHEN occurrences = 1 THEN 1 ELSE 0 END) AS BIGINT) AS single_occurrence_values,
        CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM value_counts
    GROUP BY kind
)
SELECT
    kind,
    distinct_values,
    single_occurrence_values,
    round(CAST(single_occurrence_values AS DOUBLE) / distinct_values, 4) AS share_of_values,
    round(CAST(single_occurrence_values AS DOUBLE) / occurrences, 4) AS share_of_occurrences
FROM value_totals
ORDER BY single_occurrence_values DESC, kind
