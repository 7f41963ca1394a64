-- name: frequency_histogram
-- description: How many values of a kind occur once, twice, and so on. The exact rank-frequency curve can be computed from it.
-- tables: value_counts
-- columns: kind, occurrences, distinct_values
-- params: $kind = 'all'
SELECT kind, occurrences, count(*) AS distinct_values
FROM value_counts
WHERE $kind = 'all' OR kind = $kind
GROUP BY kind, occurrences
ORDER BY kind, occurrences
