-- name: ngrams_by_n
-- description: N-grams by their number of words, 1 to $n: distinct n-grams, occurrences, and how many of them have fewer than $k users.
--              Reads all texts once for each size; three words are the slowest.
-- tables: ngrams
-- columns: n, distinct_ngrams, occurrences, rare_ngrams, rare_ngram_share, rare_occurrence_share
-- params: $n = 2 | 1 | 3, $k = 2
WITH size_counts AS (
    SELECT
        n,
        count(*) AS distinct_ngrams,
        CAST(sum(occurrences) AS BIGINT) AS occurrences,
        CAST(sum(CASE WHEN users < $k THEN 1 ELSE 0 END) AS BIGINT) AS rare_ngrams,
        CAST(sum(CASE WHEN users < $k THEN occurrences ELSE 0 END) AS DOUBLE) AS rare_occurrences
    FROM ngrams
    WHERE n <= $n
    GROUP BY n
)
SELECT
    n,
    distinct_ngrams,
    occurrences,
    rare_ngrams,
    round(CAST(rare_ngrams AS DOUBLE) / distinct_ngrams, 4) AS rare_ngram_share,
    round(rare_occurrences / occurrences, 4) AS rare_occurrence_share
FROM size_counts
ORDER BY n
