-- name: blacklist_rows
-- does: The blacklist in words: indirect identifiers of one to three words, and direct ones. The number of an n-gram holds the number of its
--       first words among the frequent n-grams of one word less, times 2^32, and one more than the number of its last word.
-- reads: degrees_1 (gram, users), degrees_2, degrees_3, white_1 (number, gram), white_2, spelled (gram, word), direct (ngram, n)
-- gives: ngram, n, users, reason
-- takes: $k = 2
WITH vocabulary AS (
    SELECT gram, min(word) AS word FROM spelled GROUP BY gram
),
frequent AS (
    SELECT w.number, v.word FROM white_1 AS w INNER JOIN vocabulary AS v ON v.gram = w.gram
),
rare AS (
    SELECT 2 AS n, users, CAST((gram - gram % 4294967296) / 4294967296 AS BIGINT) AS head, gram % 4294967296 - 1 AS tail
    FROM degrees_2
    WHERE users < $k
    UNION ALL
    SELECT 3 AS n, users, CAST((gram - gram % 4294967296) / 4294967296 AS BIGINT) AS head, gram % 4294967296 - 1 AS tail
    FROM degrees_3
    WHERE users < $k
),
heads AS (
    SELECT 2 AS n, number, word AS words FROM frequent
    UNION ALL
    SELECT 3 AS n, pairs.number, one.word || ' ' || two.word AS words
    FROM (
        SELECT number, CAST((gram - gram % 4294967296) / 4294967296 AS BIGINT) AS head, gram % 4294967296 - 1 AS tail FROM white_2
    ) AS pairs
    INNER JOIN frequent AS one ON one.number = pairs.head
    INNER JOIN frequent AS two ON two.number = pairs.tail
)
SELECT v.word AS ngram, 1 AS n, d.users AS users, 'indirect' AS reason
FROM degrees_1 AS d
INNER JOIN vocabulary AS v ON v.gram = d.gram
WHERE d.users < $k
UNION ALL
SELECT h.words || ' ' || f.word AS ngram, r.n AS n, r.users AS users, 'indirect' AS reason
FROM rare AS r
INNER JOIN heads AS h ON h.n = r.n AND h.number = r.head
INNER JOIN frequent AS f ON f.number = r.tail
UNION ALL
SELECT DISTINCT ngram, n, CAST(NULL AS BIGINT) AS users, 'direct' AS reason
FROM direct
ORDER BY n, ngram, reason
