-- name: first_occurrences
-- description: The first $keep occurrences of every value of the chosen kinds, in corpus order, among the occurrences that remain after
--              earlier parts.
-- tables: remaining_occurrences (doc_no, cell, start, kind, value_id), chosen_kinds (kind)
-- columns: doc_no, cell, start, value_id
-- params: $keep = 1
SELECT doc_no, cell, start, value_id
FROM (
    SELECT
        doc_no,
        cell,
        start,
        value_id,
        row_number() OVER (PARTITION BY value_id ORDER BY doc_no, cell, start) AS occurrence_no
    FROM remaining_occurrences
    WHERE kind IN (SELECT kind FROM chosen_kinds)
) AS numbered_occurrences
WHERE occurrence_no <= $keep
ORDER BY doc_no, cell, start, value_id
