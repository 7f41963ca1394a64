-- name: blacklist_direct
-- does: The words of every value found, each row of words once, in the order of their number and of the alphabet.
-- reads: direct (ngram, n)
-- gives: ngram, n
-- takes: nothing
SELECT DISTINCT ngram, n
FROM direct
ORDER BY n, ngram
