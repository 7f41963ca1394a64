-- name: header_removals
-- description: The occurrences in removed units of mail headers, and the bytes that are removed with each: the whole line if all of its
--              entries are removed; else the entry with the separator before it, or with the one after it if no entry before it is kept.
-- tables: units (group_no, item_id, doc_no, cell, start, field, line_start, line_end, entry_start, entry_end, previous_end, next_start, entry_no, entry_count), removed_groups (group_no)
-- columns: doc_no, cell, start, value_id, start_byte, end_byte, field, whole_line
-- params: none
WITH removed_units AS (
    SELECT
        u.doc_no,
        u.cell,
        u.start,
        u.item_id,
        u.field,
        u.line_start,
        u.line_end,
        u.entry_start,
        u.entry_end,
        u.previous_end,
        u.next_start,
        u.entry_no,
        u.entry_count,
        dense_rank() OVER (PARTITION BY u.doc_no, u.cell, u.line_start ORDER BY u.group_no) - 1 AS removal_no
    FROM units AS u
    WHERE EXISTS (SELECT 1 FROM removed_groups AS g WHERE g.group_no = u.group_no)
),
removed_entry_counts AS (
    SELECT doc_no, cell, line_start, max(removal_no) + 1 AS removed_entries
    FROM removed_units
    GROUP BY doc_no, cell, line_start
)
SELECT
    n.doc_no,
    n.cell,
    n.start,
    n.item_id AS value_id,
    CASE
        WHEN c.removed_entries = n.entry_count THEN n.line_start
        WHEN n.removal_no = n.entry_no THEN n.entry_start
        ELSE n.previous_end
    END AS start_byte,
    CASE
        WHEN c.removed_entries = n.entry_count THEN n.line_end
        WHEN n.removal_no = n.entry_no THEN n.next_start
        ELSE n.entry_end
    END AS end_byte,
    n.field,
    CASE WHEN c.removed_entries = n.entry_count THEN 1 ELSE 0 END AS whole_line
FROM removed_units AS n
JOIN removed_entry_counts AS c ON c.doc_no = n.doc_no AND c.cell = n.cell AND c.line_start = n.line_start
ORDER BY n.doc_no, n.cell, n.start, n.item_id
