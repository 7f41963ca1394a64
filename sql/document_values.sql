-- name: document_values
-- does: Pairs of a document and a value of the chosen kinds that occurs in it, each pair once.
-- reads: occurrences_left (doc_no, kind, value_id), chosen_kinds (kind)
-- gives: group_no, thing_id
-- takes: nothing
SELECT DISTINCT doc_no AS group_no, value_id AS thing_id
FROM occurrences_left
WHERE kind IN (SELECT kind FROM chosen_kinds)
ORDER BY group_no, thing_id
