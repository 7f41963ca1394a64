-- name: words_by_users
-- does: Words by the number of their users: how many distinct ones, how often they occur, and both shares added up from the rarest. Most
--       distinct words have one user and are few occurrences: what a blacklist of k users would take. Reads all texts.
-- reads: ngrams
-- gives: users, distinct_words, occurrences, words_so_far, occurrences_so_far
-- takes: $limit = 20
WITH counted AS (
    SELECT users, count(*) AS distinct_words, CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM ngrams
    WHERE n = 1
    GROUP BY users
),
added AS (
    SELECT
        users,
        distinct_words,
        occurrences,
        CAST(sum(distinct_words) OVER (ORDER BY users ROWS UNBOUNDED PRECEDING) AS DOUBLE) AS words,
        CAST(sum(distinct_words) OVER () AS DOUBLE) AS all_words,
        CAST(sum(occurrences) OVER (ORDER BY users ROWS UNBOUNDED PRECEDING) AS DOUBLE) AS times,
        CAST(sum(occurrences) OVER () AS DOUBLE) AS all_times
    FROM counted
)
SELECT
    users,
    distinct_words,
    occurrences,
    round(words / all_words, 4) AS words_so_far,
    round(times / all_times, 4) AS occurrences_so_far
FROM added
ORDER BY users
LIMIT $limit
