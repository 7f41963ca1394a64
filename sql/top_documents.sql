-- name: top_documents
-- description: The documents with the most occurrences, of all kinds or of one.
-- tables: occurrences
-- columns: doc_no, occurrences, distinct_values
-- params: $kind = 'all', $limit = 20
SELECT doc_no, count(*) AS occurrences, count(DISTINCT value_id) AS distinct_values
FROM occurrences
WHERE $kind = 'all' OR kind = $kind
GROUP BY doc_no
ORDER BY occurrences DESC, doc_no
LIMIT $limit
