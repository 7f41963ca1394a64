-- name: document_values
-- description: Pairs of a document and a value of the chosen kinds that occurs in it, each pair once.
-- tables: remaining_occurrences (doc_no, kind, value_id), chosen_kinds (kind)
-- columns: group_no, item_id
-- params: none
SELECT DISTINCT doc_no AS group_no, value_id AS item_id
FROM remaining_occurrences
WHERE kind IN (SELECT kind FROM chosen_kinds)
ORDER BY group_no, item_id
