-- name: header_removals
-- does: The occurrences whose unit goes, and the bytes of the cell that go with each: the whole line where all of its entries go; else the
--       entry and the separator before it, or the one after it where nothing stays before it.
-- reads: units (group_no, thing_id, doc_no, cell, start, field, line_start, line_stop, head, tail, before, next, place, entries), gone (group_no)
-- gives: doc_no, cell, start, value_id, start_byte, stop_byte, field, whole_line
-- takes: nothing
WITH numbered AS (
    SELECT
        u.doc_no,
        u.cell,
        u.start,
        u.thing_id,
        u.field,
        u.line_start,
        u.line_stop,
        u.head,
        u.tail,
        u.before,
        u.next,
        u.place,
        u.entries,
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
    CASE WHEN c.goes = n.entries THEN n.line_start WHEN n.nth = n.place THEN n.head ELSE n.before END AS start_byte,
    CASE WHEN c.goes = n.entries THEN n.line_stop WHEN n.nth = n.place THEN n.next ELSE n.tail END AS stop_byte,
    n.field,
    CASE WHEN c.goes = n.entries THEN 1 ELSE 0 END AS whole_line
FROM numbered AS n
JOIN counted AS c ON c.doc_no = n.doc_no AND c.cell = n.cell AND c.line_start = n.line_start
ORDER BY n.doc_no, n.cell, n.start, n.thing_id
