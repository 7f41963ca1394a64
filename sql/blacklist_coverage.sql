-- name: blacklist_coverage
-- description: Coverage of the blacklist of the selected run, by n-gram size and reason: how many of its n-grams occur in the texts, how
--              often, and their share of all n-grams of that size. Reads all texts.
-- tables: blacklist, ngrams
-- columns: n, reason, distinct_ngrams, occurrences, share_of_ngrams, share_of_occurrences
-- params: $n = 1 | 2 | 3
WITH reason_counts AS (
    SELECT n, reason, count(*) AS distinct_ngrams, CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM ngrams
    WHERE n <= $n AND n IN (SELECT n FROM blacklist)
    GROUP BY n, reason
),
size_totals AS (
    SELECT
        n,
        reason,
        distinct_ngrams,
        occurrences,
        CAST(sum(distinct_ngrams) OVER (PARTITION BY n) AS DOUBLE) AS all_ngrams,
        CAST(sum(occurrences) OVER (PARTITION BY n) AS DOUBLE) AS all_occurrences
    FROM reason_counts
)
SELECT
    n,
    reason,
    distinct_ngrams,
    occurrences,
    round(distinct_ngrams / all_ngrams, 4) AS share_of_ngrams,
    round(occurrences / all_occurrences, 4) AS share_of_occurrences
FROM size_totals
WHERE reason IS NOT NULL
ORDER BY n, reason
