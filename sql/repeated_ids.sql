-- name: repeated_ids
-- does: The document ids that more than one document has, as keyed hashes, most frequent first.
-- reads: document_ids
-- gives: doc_id_hash, documents
-- takes: nothing
SELECT doc_id_hash, count(*) AS documents
FROM document_ids
GROUP BY doc_id_hash
HAVING count(*) > 1
ORDER BY documents DESC, doc_id_hash
