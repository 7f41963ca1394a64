-- name: ngram_user_counts
-- description: Number of users of each n-gram of one size, at most $k, from the tables of the tasks. A sorted part of such a table has
--              distinct pairs of an n-gram and a user, and one row without a user for an n-gram with $k users or more. Pairs are
--              deduplicated only where that can change the result.
-- tables: ngram_users (ngram_id, user_hash)
-- columns: ngram_id, users
-- params: $k = 2
WITH ngram_summaries AS (
    SELECT
        ngram_id,
        count(*) AS pair_count,
        count(user_hash) AS user_count,
        min(user_hash) AS min_user_hash,
        max(user_hash) AS max_user_hash
    FROM ngram_users
    GROUP BY ngram_id
),
distinct_user_counts AS (
    SELECT ngram_id, count(*) AS users
    FROM (SELECT DISTINCT ngram_id, user_hash FROM ngram_users WHERE $k > 2) AS distinct_pairs
    GROUP BY ngram_id
)
SELECT
    a.ngram_id,
    CASE
        WHEN a.pair_count > a.user_count THEN CAST($k AS BIGINT)
        WHEN a.min_user_hash = a.max_user_hash THEN 1
        WHEN b.users < $k THEN b.users
        ELSE CAST($k AS BIGINT)
    END AS users
FROM ngram_summaries AS a
LEFT JOIN distinct_user_counts AS b ON b.ngram_id = a.ngram_id
ORDER BY a.ngram_id
