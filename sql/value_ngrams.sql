-- name: value_ngrams
-- description: The words of all found values as n-grams, each n-gram once, ordered by size and text.
-- tables: direct_ngrams (ngram, n)
-- columns: ngram, n
-- params: none
SELECT DISTINCT ngram, n
FROM direct_ngrams
ORDER BY n, ngram
