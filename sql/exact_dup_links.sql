-- name: exact_dup_links
-- description: Every document with the same digest as an earlier document, and the first document with that digest.
-- tables: digests (doc_no, high, low)
-- columns: doc_no, kept_doc_no
-- params: none
WITH first_documents AS (
    SELECT doc_no, min(doc_no) OVER (PARTITION BY high, low) AS kept_doc_no
    FROM digests
)
SELECT doc_no, min(kept_doc_no) AS kept_doc_no
FROM first_documents
GROUP BY doc_no
HAVING min(kept_doc_no) < doc_no
ORDER BY doc_no
