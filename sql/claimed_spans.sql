-- name: claimed_spans
-- description: The spans that an editor claims: the occurrences of its kinds, without the first occurrences that it keeps.
-- tables: remaining_occurrences (doc_no, cell, start, start_byte, end_byte, kind, value_id), chosen_kinds (kind), first_occurrences (doc_no, cell, start, value_id)
-- columns: doc_no, cell, start_byte, end_byte
-- params: none
SELECT o.doc_no, o.cell, o.start_byte, o.end_byte
FROM remaining_occurrences AS o
WHERE
    o.kind IN (SELECT kind FROM chosen_kinds)
    AND NOT EXISTS (
        SELECT 1
        FROM first_occurrences AS f
        WHERE f.doc_no = o.doc_no AND f.cell = o.cell AND f.start = o.start AND f.value_id = o.value_id
    )
ORDER BY o.doc_no, o.cell, o.start_byte, o.end_byte
