-- name: near_duplicate_groups
-- does: The kept documents with the most dropped duplicates in the shown run, and the first and the last of those duplicates.
-- reads: drops
-- gives: part, reason, kept_doc_no, dropped, first_doc_no, last_doc_no
-- takes: $limit = 20
SELECT part, reason, kept_doc_no, count(*) AS dropped, min(doc_no) AS first_doc_no, max(doc_no) AS last_doc_no
FROM drops
WHERE kept_doc_no IS NOT NULL
GROUP BY part, reason, kept_doc_no
ORDER BY dropped DESC, kept_doc_no, part NULLS LAST, reason NULLS LAST
LIMIT $limit
