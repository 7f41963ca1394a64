-- name: header_units
-- description: Occurrences in mail headers that remain after earlier parts, with the number of their unit (an entry of an address list, or
--              a line) in corpus order.
-- tables: header_occurrences (doc_no, cell, start, value_id, field, line_start, line_end, unit_start, entry_start, entry_end, previous_end, next_start, entry_no, entry_count), remaining_occurrences (doc_no, cell, start, value_id)
-- columns: group_no, item_id, doc_no, cell, start, field, line_start, line_end, entry_start, entry_end, previous_end, next_start, entry_no, entry_count
-- params: none
SELECT
    dense_rank() OVER (ORDER BY h.doc_no, h.cell, h.unit_start) - 1 AS group_no,
    h.value_id AS item_id,
    h.doc_no,
    h.cell,
    h.start,
    h.field,
    h.line_start,
    h.line_end,
    h.entry_start,
    h.entry_end,
    h.previous_end,
    h.next_start,
    h.entry_no,
    h.entry_count
FROM header_occurrences AS h
WHERE EXISTS (
    SELECT 1
    FROM remaining_occurrences AS o
    WHERE o.doc_no = h.doc_no AND o.cell = h.cell AND o.start = h.start AND o.value_id = h.value_id
)
ORDER BY group_no, h.start, item_id
