-- name: blacklist_white
-- does: The n-grams of one size that k users wrote, numbered from 0 in the order of their numbers.
-- reads: degrees (gram, users)
-- gives: number, gram
-- takes: $k = 2
SELECT row_number() OVER (ORDER BY gram) - 1 AS number, gram
FROM degrees
WHERE users >= $k
ORDER BY gram
