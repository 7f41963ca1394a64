-- name: firsts_from_counts
-- does: The first occurrence of every value of the chosen kinds, directly from the counts. Equal to firsts for $keep = 1 if no earlier
--       part dropped or claimed anything.
-- reads: value_counts, chosen_kinds (kind)
-- gives: doc_no, cell, start, value_id
-- takes: nothing
SELECT first_doc_no AS doc_no, first_cell AS cell, first_start AS start, value_id
FROM value_counts
WHERE kind IN (SELECT kind FROM chosen_kinds)
ORDER BY doc_no, cell, start, value_id
