-- name: first_occurrences_from_counts
-- description: The first occurrence of every value of the chosen kinds, directly from the counts. Equal to first_occurrences with $keep = 1
--              if no earlier part dropped or claimed anything.
-- tables: value_counts, chosen_kinds (kind)
-- columns: doc_no, cell, start, value_id
-- params: none
SELECT first_doc_no AS doc_no, first_cell AS cell, first_start AS start, value_id
FROM value_counts
WHERE kind IN (SELECT kind FROM chosen_kinds)
ORDER BY doc_no, cell, start, value_id
