-- name: blacklist_coverage
-- does: Coverage of the blacklist of the shown run, by n-gram size and reason: how many of its n-grams occur in the texts, how often, and
--       what share of all n-grams of that size they are. Reads all texts.
-- reads: blacklist, ngrams
-- gives: n, reason, distinct_ngrams, occurrences, share_of_ngrams, share_of_occurrences
-- takes: $n = 1 | 2 | 3
WITH counted AS (
    SELECT n, reason, count(*) AS distinct_ngrams, CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM ngrams
    WHERE n <= $n AND n IN (SELECT n FROM blacklist)
    GROUP BY n, reason
),
shared AS (
    SELECT
        n,
        reason,
        distinct_ngrams,
        occurrences,
        CAST(sum(distinct_ngrams) OVER (PARTITION BY n) AS DOUBLE) AS all_ngrams,
        CAST(sum(occurrences) OVER (PARTITION BY n) AS DOUBLE) AS all_times
    FROM counted
)
SELECT
    n,
    reason,
    distinct_ngrams,
    occurrences,
    round(distinct_ngrams / all_ngrams, 4) AS share_of_ngrams,
    round(occurrences / all_times, 4) AS share_of_occurrences
FROM shared
WHERE reason IS NOT NULL
ORDER BY n, reason
