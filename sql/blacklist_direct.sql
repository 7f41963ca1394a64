-- name: blacklist_direct
-- does: The words of all found values as n-grams, each n-gram once, ordered by size and alphabet.
-- reads: direct (ngram, n)
-- gives: ngram, n
-- takes: nothing
SELECT DISTINCT ngram, n
FROM direct
ORDER BY n, ngram
