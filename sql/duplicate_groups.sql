-- name: duplicate_groups
-- description: The kept documents with the most dropped duplicates in the selected run, and the first and the last of those duplicates.
-- tables: drops
-- columns: part, reason, kept_doc_no, dropped_documents, first_doc_no, last_doc_no
-- params: $limit = 20
SELECT part, reason, kept_doc_no, count(*) AS dropped_documents, min(doc_no) AS first_doc_no, max(doc_no) AS last_doc_no
FROM drops
WHERE kept_doc_no IS NOT NULL
GROUP BY part, reason, kept_doc_no
ORDER BY dropped_documents DESC, kept_doc_no, part NULLS LAST, reason NULLS LAST
LIMIT $limit
