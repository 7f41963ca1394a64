-- name: near_dup_links
-- does: The pairs whose Jaccard similarity is at least the threshold, computed exactly from their distinct word shingles (runs).
-- reads: pairs (doc_no, earlier_doc_no), runs (doc_no, run)
-- gives: doc_no, earlier_doc_no
-- takes: $threshold = 0.8
WITH sizes AS (
    SELECT doc_no, count(*) AS size
    FROM runs
    GROUP BY doc_no
),
shared AS (
    SELECT p.doc_no, p.earlier_doc_no, count(*) AS common
    FROM pairs AS p
    JOIN runs AS a ON a.doc_no = p.earlier_doc_no
    JOIN runs AS b ON b.doc_no = p.doc_no AND b.run = a.run
    GROUP BY p.doc_no, p.earlier_doc_no
)
SELECT s.doc_no, s.earlier_doc_no
FROM shared AS s
JOIN sizes AS one ON one.doc_no = s.doc_no
JOIN sizes AS other ON other.doc_no = s.earlier_doc_no
WHERE s.common >= $threshold * (one.size + other.size - s.common)
ORDER BY s.doc_no, s.earlier_doc_no
