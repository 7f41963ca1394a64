-- name: header_units
-- does: Occurrences in mail headers that earlier parts left, with the number of their unit (an entry of an address list, or a line) in
--       corpus order.
-- reads: places (doc_no, cell, start, value_id, field, line_start, line_end, unit_start, entry_start, entry_end, previous_end, next_start, entry_no, entry_count), occurrences_left (doc_no, cell, start, value_id)
-- gives: group_no, thing_id, doc_no, cell, start, field, line_start, line_end, entry_start, entry_end, previous_end, next_start, entry_no, entry_count
-- takes: nothing
SELECT
    dense_rank() OVER (ORDER BY p.doc_no, p.cell, p.unit_start) - 1 AS group_no,
    p.value_id AS thing_id,
    p.doc_no,
    p.cell,
    p.start,
    p.field,
    p.line_start,
    p.line_end,
    p.entry_start,
    p.entry_end,
    p.previous_end,
    p.next_start,
    p.entry_no,
    p.entry_count
FROM places AS p
WHERE EXISTS (
    SELECT 1
    FROM occurrences_left AS o
    WHERE o.doc_no = p.doc_no AND o.cell = p.cell AND o.start = p.start AND o.value_id = p.value_id
)
ORDER BY group_no, p.start, thing_id
