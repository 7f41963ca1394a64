-- name: header_removals
-- does: The occurrences in removed units of mail headers, and the bytes that are removed with each: the whole line if all of its entries
--       are removed; else the entry with the separator before it, or with the one after it if no entry before it is kept.
-- reads: units (group_no, thing_id, doc_no, cell, start, field, line_start, line_end, entry_start, entry_end, previous_end, next_start, entry_no, entry_count), gone (group_no)
-- gives: doc_no, cell, start, value_id, start_byte, end_byte, field, whole_line
-- takes: nothing
WITH numbered AS (
    SELECT
        u.doc_no,
        u.cell,
        u.start,
        u.thing_id,
        u.field,
        u.line_start,
        u.line_end,
        u.entry_start,
        u.entry_end,
        u.previous_end,
        u.next_start,
        u.entry_no,
        u.entry_count,
        dense_rank() OVER (PARTITION BY u.doc_no, u.cell, u.line_start ORDER BY u.group_no) - 1 AS nth
    FROM units AS u
    WHERE EXISTS (SELECT 1 FROM gone AS g WHERE g.group_no = u.group_no)
),
counted AS (
    SELECT doc_no, cell, line_start, max(nth) + 1 AS goes
    FROM numbered
    GROUP BY doc_no, cell, line_start
)
SELECT
    n.doc_no,
    n.cell,
    n.start,
    n.thing_id AS value_id,
    CASE WHEN c.goes = n.entry_count THEN n.line_start WHEN n.nth = n.entry_no THEN n.entry_start ELSE n.previous_end END AS start_byte,
    CASE WHEN c.goes = n.entry_count THEN n.line_end WHEN n.nth = n.entry_no THEN n.next_start ELSE n.entry_end END AS end_byte,
    n.field,
    CASE WHEN c.goes = n.entry_count THEN 1 ELSE 0 END AS whole_line
FROM numbered AS n
JOIN counted AS c ON c.doc_no = n.doc_no AND c.cell = n.cell AND c.line_start = n.line_start
ORDER BY n.doc_no, n.cell, n.start, n.thing_id
