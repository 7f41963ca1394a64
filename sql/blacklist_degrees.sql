-- name: blacklist_degrees
-- does: How many users the n-grams of one size have, up to k, from what the tasks saw: distinct pairs of an n-gram and a user in each of
--       their parts, and a row without a user for an n-gram that had k users in one part.
-- reads: seen (gram, user_hash)
-- gives: gram, users
-- takes: $k = 2
SELECT gram, CASE WHEN count(*) > count(user_hash) OR count(*) >= $k THEN CAST($k AS BIGINT) ELSE count(*) END AS users
FROM (SELECT DISTINCT gram, user_hash FROM seen) AS pairs
GROUP BY gram
