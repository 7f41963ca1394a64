-- name: first_and_last_documents
-- description: The most frequent values with the first and the last document in which they occur.
-- tables: occurrences, value_spellings
-- columns: kind, value, occurrences, first_doc_no, last_doc_no
-- params: $kind = 'all', $limit = 20
WITH document_ranges AS (
    SELECT value_id, kind, count(*) AS occurrences, min(doc_no) AS first_doc_no, max(doc_no) AS last_doc_no
    FROM occurrences
    WHERE $kind = 'all' OR kind = $kind
    GROUP BY value_id, kind
),
top_values AS (
    SELECT value_id, kind, occurrences, first_doc_no, last_doc_no
    FROM document_ranges
    ORDER BY occurrences DESC, value_id, kind
    LIMIT $limit
)
SELECT m.kind, max(v.value) AS value, m.occurrences, m.first_doc_no, m.last_doc_no
FROM top_values AS m
LEFT JOIN value_spellings AS v ON v.value_id = m.value_id
GROUP BY m.value_id, m.kind, m.occurrences, m.first_doc_no, m.last_doc_no
ORDER BY m.occurrences DESC, m.value_id, m.kind
