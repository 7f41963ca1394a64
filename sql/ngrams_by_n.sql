-- name: ngrams_by_n
-- does: N-grams by their number of words, 1 to $n: distinct ones, occurrences, and how many of them have fewer than $k users. Reads all
--       texts once for each size; three words are the slowest.
-- reads: ngrams
-- gives: n, distinct_ngrams, occurrences, rare, rare_share, rare_share_of_occurrences
-- takes: $n = 2 | 1 | 3, $k = 2
WITH counted AS (
    SELECT
        n,
        count(*) AS distinct_ngrams,
        CAST(sum(occurrences) AS BIGINT) AS occurrences,
        CAST(sum(CASE WHEN users < $k THEN 1 ELSE 0 END) AS BIGINT) AS rare,
        CAST(sum(CASE WHEN users < $k THEN occurrences ELSE 0 END) AS DOUBLE) AS rare_times
    FROM ngrams
    WHERE n <= $n
    GROUP BY n
)
SELECT
    n,
    distinct_ngrams,
    occurrences,
    rare,
    round(CAST(rare AS DOUBLE) / distinct_ngrams, 4) AS rare_share,
    round(rare_times / occurrences, 4) AS rare_share_of_occurrences
FROM counted
ORDER BY n
