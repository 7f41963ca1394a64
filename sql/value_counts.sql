-- name: value_counts
-- description: Every distinct value with its counts over the corpus, from the counts of the tasks. Tasks are disjoint ranges of doc_no:
--              document counts add up, and the first occurrence is that of the task with the smallest first_doc_no.
-- tables: partial_counts (value_id, kind, occurrences, documents, first_doc_no, first_cell, first_start)
-- columns: value_id, kind, occurrences, documents, first_doc_no, first_cell, first_start
-- params: none
SELECT
    value_id,
    kind,
    CAST(sum(occurrences) AS BIGINT) AS occurrences,
    CAST(sum(documents) AS BIGINT) AS documents,
    min(first_doc_no) AS first_doc_no,
    min_by(first_cell, first_doc_no) AS first_cell,
    min_by(first_start, first_doc_no) AS first_start
FROM partial_counts
GROUP BY value_id, kind
ORDER BY value_id, kind
