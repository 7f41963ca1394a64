-- name: edits_by_part
-- description: Edits of each part of the selected run, and all occurrences of the kind in the documents that were not dropped.
-- tables: edits, occurrences, drops
-- columns: part, kind, occurrences, edits, documents, bytes
-- params: none
WITH occurrence_counts AS (
    SELECT kind, count(*) AS occurrences
    FROM occurrences AS o
    WHERE NOT EXISTS (SELECT 1 FROM drops AS d WHERE d.doc_no = o.doc_no)
    GROUP BY kind
),
edit_counts AS (
    SELECT
        part,
        kind,
        count(*) AS edits,
        count(DISTINCT doc_no) AS documents,
        CAST(sum(end_byte - start_byte) AS BIGINT) AS bytes
    FROM edits
    GROUP BY part, kind
)
SELECT e.part, e.kind, coalesce(o.occurrences, 0) AS occurrences, e.edits, e.documents, e.bytes
FROM edit_counts AS e
LEFT JOIN occurrence_counts AS o ON o.kind = e.kind
ORDER BY e.part, e.kind
