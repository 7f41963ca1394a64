-- name: subject_edits
-- description: Edits of one run to the occurrences of one person, by kind: how many occurrences are in documents that it published, and how
--              many of these it replaced.
-- tables: occurrences, subject (value_id), edits, published_documents (doc_no)
-- columns: kind, occurrences, replaced
-- params: none
WITH subject_occurrences AS (
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
        END AS is_edited
    FROM occurrences AS o
    WHERE o.value_id IN (SELECT s.value_id FROM subject AS s) AND o.doc_no IN (SELECT p.doc_no FROM published_documents AS p)
)
SELECT kind, count(*) AS occurrences, CAST(sum(is_edited) AS BIGINT) AS replaced
FROM subject_occurrences
GROUP BY kind
ORDER BY kind
