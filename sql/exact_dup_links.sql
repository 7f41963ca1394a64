-- name: exact_dup_links
-- does: Every document whose digest an earlier document has, with the first document that has it.
-- reads: digests (doc_no, high, low)
-- gives: doc_no, kept_doc_no
-- takes: nothing
WITH firsts AS (
    SELECT doc_no, min(doc_no) OVER (PARTITION BY high, low) AS kept_doc_no
    FROM digests
)
SELECT doc_no, min(kept_doc_no) AS kept_doc_no
FROM firsts
GROUP BY doc_no
HAVING min(kept_doc_no) < doc_no
ORDER BY doc_no
