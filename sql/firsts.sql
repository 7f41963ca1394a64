-- name: firsts
-- does: The first $keep occurrences of every value of the chosen kinds, in corpus order, among the occurrences that earlier parts left.
-- reads: occurrences_left (doc_no, cell, start, kind, value_id), chosen_kinds (kind)
-- gives: doc_no, cell, start, value_id
-- takes: $keep = 1
SELECT doc_no, cell, start, value_id
FROM (
    SELECT
        doc_no,
        cell,
        start,
        value_id,
        row_number() OVER (PARTITION BY value_id ORDER BY doc_no, cell, start) AS nth
    FROM occurrences_left
    WHERE kind IN (SELECT kind FROM chosen_kinds)
) AS numbered
WHERE nth <= $keep
ORDER BY doc_no, cell, start, value_id
