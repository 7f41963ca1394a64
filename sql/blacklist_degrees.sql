-- name: blacklist_degrees
-- does: How many users the n-grams of one size have, up to k, from what the tasks saw: distinct pairs of an n-gram and a user in each of
--       their parts, and a row without a user for an n-gram that had k users in one part. Pairs are only told apart one by one where one
--       user more or less matters.
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
