-- name: near_dup_candidates
-- does: The documents that occur in a candidate pair.
-- reads: pairs (doc_no, earlier_doc_no)
-- gives: doc_no
-- takes: nothing
SELECT doc_no FROM pairs
UNION
SELECT earlier_doc_no AS doc_no FROM pairs
ORDER BY doc_no
