-- name: before_after
-- does: Documents and original occurrences before and after each part of the shown run's plan, in plan order. A part does not see what an
--       earlier one dropped or edited.
-- reads: parts, document_ids, occurrences, drops, edits
-- gives: part_no, stage, part, documents_before, documents_after, occurrences_before, occurrences_after
-- takes: nothing
WITH dropped AS (
    SELECT d.doc_no, min(p.part_no) AS part_no
    FROM drops AS d
    JOIN parts AS p ON p.part = d.part AND p.stage = 'drop'
    GROUP BY d.doc_no
),
edited AS (
    SELECT o.doc_no, o.cell, o.start_byte, o.end_byte, o.value_id, min(p.part_no) AS part_no
    FROM occurrences AS o
    JOIN edits AS e ON e.doc_no = o.doc_no AND e.cell = o.cell AND e.start_byte < o.end_byte AND e.end_byte > o.start_byte
    JOIN parts AS p ON p.part = e.part AND p.stage = 'edit'
    GROUP BY o.doc_no, o.cell, o.start_byte, o.end_byte, o.value_id
),
documents_by AS (
    SELECT part_no, count(*) AS documents
    FROM dropped
    GROUP BY part_no
),
occurrences_by AS (
    SELECT taken.part_no, count(*) AS occurrences
    FROM (
        SELECT coalesce(d.part_no, e.part_no) AS part_no
        FROM occurrences AS o
        LEFT JOIN dropped AS d ON d.doc_no = o.doc_no
        LEFT JOIN edited AS e
            ON
                e.doc_no = o.doc_no
                AND e.cell = o.cell
                AND e.start_byte = o.start_byte
                AND e.end_byte = o.end_byte
                AND e.value_id = o.value_id
    ) AS taken
    WHERE taken.part_no IS NOT NULL
    GROUP BY taken.part_no
),
taken AS (
    SELECT
        p.part_no,
        p.stage,
        p.part,
        coalesce(d.documents, 0) AS documents,
        coalesce(o.occurrences, 0) AS occurrences
    FROM parts AS p
    LEFT JOIN documents_by AS d ON d.part_no = p.part_no
    LEFT JOIN occurrences_by AS o ON o.part_no = p.part_no
),
added AS (
    SELECT
        part_no,
        stage,
        part,
        documents,
        occurrences,
        (SELECT count(*) FROM document_ids) - CAST(sum(documents) OVER (ORDER BY part_no ROWS UNBOUNDED PRECEDING) AS BIGINT) AS documents_left,
        (SELECT count(*) FROM occurrences)
        - CAST(sum(occurrences) OVER (ORDER BY part_no ROWS UNBOUNDED PRECEDING) AS BIGINT) AS occurrences_left
    FROM taken
)
SELECT
    part_no,
    stage,
    part,
    documents_left + documents AS documents_before,
    documents_left AS documents_after,
    occurrences_left + occurrences AS occurrences_before,
    occurrences_left AS occurrences_after
FROM added
ORDER BY part_no
