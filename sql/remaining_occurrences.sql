-- name: remaining_occurrences
-- description: The occurrences that remain after earlier parts: not in a dropped document, and not overlapping a claimed span.
-- tables: occurrences, claimed_spans (doc_no, cell, start_byte, end_byte), drops
-- columns: doc_no, cell, start, end, start_byte, end_byte, kind, value_id, finder, score, section, entity_id
-- params: none
SELECT
    o.doc_no,
    o.cell,
    o.start,
    o.end,
    o.start_byte,
    o.end_byte,
    o.kind,
    o.value_id,
    o.finder,
    o.score,
    o.section,
    o.entity_id
FROM occurrences AS o
WHERE
    NOT EXISTS (SELECT 1 FROM drops AS d WHERE d.doc_no = o.doc_no)
    AND NOT EXISTS (
        SELECT 1
        FROM claimed_spans AS c
        WHERE c.doc_no = o.doc_no AND c.cell = o.cell AND c.start_byte < o.end_byte AND c.end_byte > o.start_byte
    )
ORDER BY o.doc_no, o.cell, o.start, o.end, o.kind, o.value_id
