-- name: near_dup_candidates
-- description: The documents that occur in a candidate pair.
-- tables: pairs (doc_no, earlier_doc_no)
-- columns: doc_no
-- params: none
SELECT doc_no FROM pairs
UNION
SELECT earlier_doc_no AS doc_no FROM pairs
ORDER BY doc_no
