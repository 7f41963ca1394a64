-- name: values_only_kept
-- description: The values that were removed nowhere: every occurrence that was found is a kept original.
-- tables: occurrences (value_id), kept (value_id)
-- columns: value_id
-- params: none
WITH found_counts AS (
    SELECT value_id, count(*) AS times
    FROM occurrences
    GROUP BY value_id
),
kept_counts AS (
    SELECT value_id, count(*) AS times
    FROM kept
    GROUP BY value_id
)
SELECT k.value_id
FROM kept_counts AS k
JOIN found_counts AS f ON f.value_id = k.value_id
WHERE k.times >= f.times
ORDER BY k.value_id
