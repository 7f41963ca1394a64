-- name: repeated_document_ids
-- description: The document ids that several documents share, as keyed hashes, most frequent first.
-- tables: document_ids
-- columns: doc_id_hash, documents
-- params: none
SELECT doc_id_hash, count(*) AS documents
FROM document_ids
GROUP BY doc_id_hash
HAVING count(*) > 1
ORDER BY documents DESC, doc_id_hash
