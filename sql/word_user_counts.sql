-- name: word_user_counts
-- description: Every word with its hash and its number of users (at most k, as counted by ngram_user_counts), in alphabetical order.
-- tables: ngram_user_counts (ngram_id, users), word_spellings (ngram_id, word)
-- columns: word, ngram_id, users
-- params: none
WITH vocabulary AS (
    SELECT ngram_id, min(word) AS word FROM word_spellings GROUP BY ngram_id
)
SELECT v.word, v.ngram_id, d.users
FROM vocabulary AS v
INNER JOIN ngram_user_counts AS d ON d.ngram_id = v.ngram_id
ORDER BY v.word, v.ngram_id
