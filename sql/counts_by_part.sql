-- name: counts_by_part
-- description: Documents and original occurrences before and after each part of the selected run's plan, in plan order. Occurrences that an
--              earlier part dropped or edited are not counted for a later one.
-- tables: parts, document_ids, occurrences, drops, edits
-- columns: part_no, stage, part, documents_before, documents_after, occurrences_before, occurrences_after
-- params: none
WITH dropped_documents AS (
    SELECT d.doc_no, min(p.part_no) AS part_no
    FROM drops AS d
    JOIN parts AS p ON p.part = d.part AND p.stage = 'drop'
    GROUP BY d.doc_no
),
edited_occurrences AS (
    SELECT o.doc_no, o.cell, o.start_byte, o.end_byte, o.value_id, min(p.part_no) AS part_no
    FROM occurrences AS o
    JOIN edits AS e ON e.doc_no = o.doc_no AND e.cell = o.cell AND e.start_byte < o.end_byte AND e.end_byte > o.start_byte
    JOIN parts AS p ON p.part = e.part AND p.stage = 'edit'
    GROUP BY o.doc_no, o.cell, o.start_byte, o.end_byte, o.value_id
),
document_counts AS (
    SELECT part_no, count(*) AS documents
    FROM dropped_documents
    GROUP BY part_no
),
occurrence_counts AS (
    SELECT r.part_no, count(*) AS occurrences
    FROM (
        SELECT coalesce(d.part_no, e.part_no) AS part_no
        FROM occurrences AS o
        LEFT JOIN dropped_documents AS d ON d.doc_no = o.doc_no
        LEFT JOIN edited_occurrences AS e
            ON
                e.doc_no = o.doc_no
                AND e.cell = o.cell
                AND e.start_byte = o.start_byte
                AND e.end_byte = o.end_byte
                AND e.value_id = o.value_id
    ) AS r
    WHERE r.part_no IS NOT NULL
    GROUP BY r.part_no
),
removal_counts AS (
    SELECT
        p.part_no,
        p.stage,
        p.part,
        coalesce(d.documents, 0) AS removed_documents,
        coalesce(o.occurrences, 0) AS removed_occurrences
    FROM parts AS p
    LEFT JOIN document_counts AS d ON d.part_no = p.part_no
    LEFT JOIN occurrence_counts AS o ON o.part_no = p.part_no
),
running_counts AS (
    SELECT
        part_no,
        stage,
        part,
        removed_documents,
        removed_occurrences,
        (SELECT count(*) FROM document_ids)
        - CAST(sum(removed_documents) OVER (ORDER BY part_no ROWS UNBOUNDED PRECEDING) AS BIGINT) AS documents_after,
        (SELECT count(*) FROM occurrences)
        - CAST(sum(removed_occurrences) OVER (ORDER BY part_no ROWS UNBOUNDED PRECEDING) AS BIGINT) AS occurrences_after
    FROM removal_counts
)
SELECT
    part_no,
    stage,
    part,
    documents_after + removed_documents AS documents_before,
    documents_after,
    occurrences_after + removed_occurrences AS occurrences_before,
    occurrences_after
FROM running_counts
ORDER BY part_no
