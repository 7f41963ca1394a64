-- name: rank_frequency
-- does: Occurrences of the most frequent values of each kind by rank, and their cumulative share of all occurrences of the kind.
-- reads: value_counts
-- gives: kind, rank, occurrences, share_so_far
-- takes: $kind = 'all', $limit = 20
WITH ranked AS (
    SELECT
        kind,
        occurrences,
        row_number() OVER (PARTITION BY kind ORDER BY occurrences DESC, value_id) AS rank,
        CAST(sum(occurrences) OVER (PARTITION BY kind ORDER BY occurrences DESC, value_id ROWS UNBOUNDED PRECEDING) AS DOUBLE) AS so_far,
        CAST(sum(occurrences) OVER (PARTITION BY kind) AS DOUBLE) AS of_all
    FROM value_counts
    WHERE $kind = 'all' OR kind = $kind
)
SELECT kind, rank, occurrences, round(so_far / of_all, 4) AS share_so_far
FROM ranked
WHERE rank <= $limit
ORDER BY kind, rank
