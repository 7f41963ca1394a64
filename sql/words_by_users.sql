-- name: words_by_users
-- does: Words by their number of users: distinct words, occurrences, and both shares cumulated from the words with the fewest users. Most
--       distinct words have one user and few occurrences: these are the words that a blacklist for k users would contain. Reads all
--       texts.
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
