-- name: subject_documents
-- description: The documents in which values of one person occur, with the number of occurrences.
-- tables: occurrences, subject (value_id)
-- columns: doc_no, occurrences
-- params: none
SELECT o.doc_no AS doc_no, count(*) AS occurrences
FROM occurrences AS o
WHERE o.value_id IN (SELECT s.value_id FROM subject AS s)
GROUP BY o.doc_no
ORDER BY o.doc_no
