-- name: words_by_users
-- description: Words by their number of users: distinct words, occurrences, and the cumulative shares of both from the words with the
--              fewest users on. Most distinct words have one user and few occurrences: these are the words that a blacklist for k users
--              would contain. Reads all texts.
-- tables: ngrams
-- columns: users, distinct_words, occurrences, cumulative_word_share, cumulative_occurrence_share
-- params: $limit = 20
WITH user_counts AS (
    SELECT users, count(*) AS distinct_words, CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM ngrams
    WHERE n = 1
    GROUP BY users
),
cumulative_counts AS (
    SELECT
        users,
        distinct_words,
        occurrences,
        CAST(sum(distinct_words) OVER (ORDER BY users ROWS UNBOUNDED PRECEDING) AS DOUBLE) AS cumulative_words,
        CAST(sum(distinct_words) OVER () AS DOUBLE) AS all_words,
        CAST(sum(occurrences) OVER (ORDER BY users ROWS UNBOUNDED PRECEDING) AS DOUBLE) AS cumulative_occurrences,
        CAST(sum(occurrences) OVER () AS DOUBLE) AS all_occurrences
    FROM user_counts
)
SELECT
    users,
    distinct_words,
    occurrences,
    round(cumulative_words / all_words, 4) AS cumulative_word_share,
    round(cumulative_occurrences / all_occurrences, 4) AS cumulative_occurrence_share
FROM cumulative_counts
ORDER BY users
LIMIT $limit
