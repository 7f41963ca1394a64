-- name: near_dup_pairs
-- description: Candidate pairs of documents with the same hash in a band of their signatures, the earlier one second. Of documents with the
--              same whole signature (band -1) only the first is paired with others. In a band, each document is paired with the first of
--              its bucket and with the $neighbours (at most 64) before it.
-- tables: bands (doc_no, band, hash)
-- columns: doc_no, earlier_doc_no
-- params: $neighbours = 32
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
distances AS (
    SELECT 8 * a.digit + b.digit + 1 AS distance
    FROM digits AS a
    CROSS JOIN digits AS b
    WHERE 8 * a.digit + b.digit < $neighbours
),
signature_groups AS (
    SELECT doc_no, min(doc_no) OVER (PARTITION BY hash) AS first_doc_no
    FROM bands
    WHERE band = -1
),
representatives AS (
    SELECT b.band, b.hash, b.doc_no
    FROM bands AS b
    JOIN signature_groups AS a ON a.doc_no = b.doc_no
    WHERE b.band >= 0 AND a.first_doc_no = b.doc_no
),
shared_buckets AS (
    SELECT band, hash
    FROM representatives
    GROUP BY band, hash
    HAVING count(*) > 1
),
bucket_members AS (
    SELECT c.band, c.hash, c.doc_no, row_number() OVER (PARTITION BY c.band, c.hash ORDER BY c.doc_no) AS member_no
    FROM representatives AS c
    JOIN shared_buckets AS w ON w.band = c.band AND w.hash = c.hash
),
candidate_pairs AS (
    SELECT doc_no, first_doc_no AS earlier_doc_no
    FROM signature_groups
    WHERE first_doc_no < doc_no
    UNION
    SELECT later.doc_no, earlier.doc_no AS earlier_doc_no
    FROM bucket_members AS later
    JOIN distances AS s ON s.distance < later.member_no
    JOIN bucket_members AS earlier
        ON earlier.band = later.band AND earlier.hash = later.hash AND earlier.member_no = later.member_no - s.distance
    UNION
    SELECT later.doc_no, earlier.doc_no AS earlier_doc_no
    FROM bucket_members AS later
    JOIN bucket_members AS earlier ON earlier.band = later.band AND earlier.hash = later.hash
    WHERE earlier.member_no = 1 AND later.member_no > 1
)
SELECT doc_no, earlier_doc_no
FROM candidate_pairs
ORDER BY doc_no, earlier_doc_no
