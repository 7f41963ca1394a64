-- name: blacklist_words
-- does: Every word with its hash and its number of users, at most k, in alphabetical order.
-- reads: degrees (gram, users), spelled (gram, word)
-- gives: word, gram, users
-- takes: nothing
WITH vocabulary AS (
    SELECT gram, min(word) AS word FROM spelled GROUP BY gram
)
SELECT v.word, v.gram, d.users
FROM vocabulary AS v
INNER JOIN degrees AS d ON d.gram = v.gram
ORDER BY v.word, v.gram
