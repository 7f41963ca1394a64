-- name: near_dup_pairs
-- does: Candidate pairs of documents with the same hash in a band of their signatures, the earlier one second. Of documents with the same
--       whole signature (band -1) only the first is paired with others. In a band, each document is paired with the first of its bucket
--       and with the $near (at most 64) before it.
-- reads: bands (doc_no, band, hash)
-- gives: doc_no, earlier_doc_no
-- takes: $near = 32
WITH digits AS (
    SELECT 0 AS digit
    UNION ALL
    SELECT 1 AS digit
    UNION ALL
    SELECT 2 AS digit
    UNION ALL
    SELECT 3 AS digit
    UNION ALL
    SELECT 4 AS digit
    UNION ALL
    SELECT 5 AS digit
    UNION ALL
    SELECT 6 AS digit
    UNION ALL
    SELECT 7 AS digit
),
steps AS (
    SELECT 8 * a.digit + b.digit + 1 AS step
    FROM digits AS a
    CROSS JOIN digits AS b
    WHERE 8 * a.digit + b.digit < $near
),
alike AS (
    SELECT doc_no, min(doc_no) OVER (PARTITION BY hash) AS first_doc_no
    FROM bands
    WHERE band = -1
),
chosen AS (
    SELECT b.band, b.hash, b.doc_no
    FROM bands AS b
    JOIN alike AS a ON a.doc_no = b.doc_no
    WHERE b.band >= 0 AND a.first_doc_no = b.doc_no
),
crowded AS (
    SELECT band, hash
    FROM chosen
    GROUP BY band, hash
    HAVING count(*) > 1
),
bucket AS (
    SELECT c.band, c.hash, c.doc_no, row_number() OVER (PARTITION BY c.band, c.hash ORDER BY c.doc_no) AS place
    FROM chosen AS c
    JOIN crowded AS w ON w.band = c.band AND w.hash = c.hash
),
met AS (
    SELECT doc_no, first_doc_no AS earlier_doc_no
    FROM alike
    WHERE first_doc_no < doc_no
    UNION
    SELECT later.doc_no, earlier.doc_no AS earlier_doc_no
    FROM bucket AS later
    JOIN steps AS s ON s.step < later.place
    JOIN bucket AS earlier
        ON earlier.band = later.band AND earlier.hash = later.hash AND earlier.place = later.place - s.step
    UNION
    SELECT later.doc_no, earlier.doc_no AS earlier_doc_no
    FROM bucket AS later
    JOIN bucket AS earlier ON earlier.band = later.band AND earlier.hash = later.hash
    WHERE earlier.place = 1 AND later.place > 1
)
SELECT doc_no, earlier_doc_no
FROM met
ORDER BY doc_no, earlier_doc_no
