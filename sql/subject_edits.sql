-- name: subject_edits
-- does: What one run did with the occurrences of one person, by kind: how many are in documents that it published, and how many of these
--       it replaced.
-- reads: occurrences, subject (value_id), edits, published (doc_no)
-- gives: kind, occurrences, replaced
-- takes: nothing
WITH theirs AS (
    SELECT
        o.kind AS kind,
        CASE
            WHEN
                EXISTS (
                    SELECT 1
                    FROM edits AS e
                    WHERE e.doc_no = o.doc_no AND e.cell = o.cell AND e.start_byte < o.end_byte AND e.end_byte > o.start_byte
                )
                THEN 1
            ELSE 0
        END AS edited
    FROM occurrences AS o
    WHERE o.value_id IN (SELECT s.value_id FROM subject AS s) AND o.doc_no IN (SELECT p.doc_no FROM published AS p)
)
SELECT kind, count(*) AS occurrences, CAST(sum(edited) AS BIGINT) AS replaced
FROM theirs
GROUP BY kind
ORDER BY kind
