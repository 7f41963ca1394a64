-- name: edits_by_part
-- does: Edits of each part of the latest run, compared with all occurrences of the kind in the documents that were not dropped.
-- reads: edits, occurrences, drops
-- gives: part, kind, found, edits, documents, bytes
-- takes: nothing
WITH found AS (
    SELECT kind, count(*) AS found
    FROM occurrences AS o
    WHERE NOT EXISTS (SELECT 1 FROM drops AS d WHERE d.doc_no = o.doc_no)
    GROUP BY kind
),
done AS (
    SELECT
        part,
        kind,
        count(*) AS edits,
        count(DISTINCT doc_no) AS documents,
        CAST(sum(end_byte - start_byte) AS BIGINT) AS bytes
    FROM edits
    GROUP BY part, kind
)
SELECT e.part, e.kind, coalesce(f.found, 0) AS found, e.edits, e.documents, e.bytes
FROM done AS e
LEFT JOIN found AS f ON f.kind = e.kind
ORDER BY e.part, e.kind
