-- name: near_dup_links
-- description: The pairs whose Jaccard similarity is at least $threshold, computed exactly from their distinct shingles.
-- tables: pairs (doc_no, earlier_doc_no), shingles (doc_no, shingle)
-- columns: doc_no, earlier_doc_no
-- params: $threshold = 0.8
WITH shingle_counts AS (
    SELECT doc_no, count(*) AS shingle_count
    FROM shingles
    GROUP BY doc_no
),
common_shingle_counts AS (
    SELECT p.doc_no, p.earlier_doc_no, count(*) AS common_count
    FROM pairs AS p
    JOIN shingles AS a ON a.doc_no = p.earlier_doc_no
    JOIN shingles AS b ON b.doc_no = p.doc_no AND b.shingle = a.shingle
    GROUP BY p.doc_no, p.earlier_doc_no
)
SELECT s.doc_no, s.earlier_doc_no
FROM common_shingle_counts AS s
JOIN shingle_counts AS later ON later.doc_no = s.doc_no
JOIN shingle_counts AS earlier ON earlier.doc_no = s.earlier_doc_no
WHERE s.common_count >= $threshold * (later.shingle_count + earlier.shingle_count - s.common_count)
ORDER BY s.doc_no, s.earlier_doc_no
