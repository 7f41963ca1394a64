-- name: rank_frequency
-- description: Occurrences of the most frequent values of each kind by rank, and their cumulative share of all occurrences of the kind.
-- tables: value_counts
-- columns: kind, rank, occurrences, cumulative_share
-- params: $kind = 'all', $limit = 20
WITH ranked_values AS (
    SELECT
        kind,
        occurrences,
        row_number() OVER (PARTITION BY kind ORDER BY occurrences DESC, value_id) AS rank,
        CAST(sum(occurrences) OVER (
            PARTITION BY kind ORDER BY occurrences DESC, value_id ROWS UNBOUNDED PRECEDING
        ) AS DOUBLE) AS cumulative_occurrences,
        CAST(sum(occurrences) OVER (PARTITION BY kind) AS DOUBLE) AS all_occurrences
    FROM value_counts
    WHERE $kind = 'all' OR kind = $kind
)
SELECT kind, rank, occurrences, round(cumulative_occurrences / all_occurrences, 4) AS cumulative_share
FROM ranked_values
WHERE rank <= $limit
ORDER BY kind, rank
