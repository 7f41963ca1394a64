-- name: blacklist_degrees
-- does: Number of users of each n-gram of one size, at most k, from the tables of the tasks. Each of their parts holds distinct pairs of
--       an n-gram and a user, and one row without a user for an n-gram with k users in it. Pairs are deduplicated only where one user
--       more or less changes the result.
-- reads: seen (gram, user_hash)
-- gives: gram, users
-- takes: $k = 2
WITH summed AS (
    SELECT gram, count(*) AS pairs, count(user_hash) AS named, min(user_hash) AS low, max(user_hash) AS high
    FROM seen
    GROUP BY gram
),
several AS (
    SELECT gram, count(*) AS users
    FROM (SELECT DISTINCT gram, user_hash FROM seen WHERE $k > 2) AS distinct_pairs
    GROUP BY gram
)
SELECT
    a.gram,
    CASE
        WHEN a.pairs > a.named THEN CAST($k AS BIGINT)
        WHEN a.low = a.high THEN 1
        WHEN b.users < $k THEN b.users
        ELSE CAST($k AS BIGINT)
    END AS users
FROM summed AS a
LEFT JOIN several AS b ON b.gram = a.gram
ORDER BY a.gram
