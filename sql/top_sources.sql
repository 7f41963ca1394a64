-- name: top_sources
-- description: The values that occur most often, with the input file and the position of the first occurrence.
-- tables: value_counts, value_spellings, sources
-- columns: rank, kind, value, occurrences, documents, source, location
-- params: $kind = 'all', $by = 'occurrences' | 'documents', $limit = 20
WITH top_values AS (
    SELECT value_id, kind, occurrences, documents, first_doc_no
    FROM value_counts
    WHERE $kind = 'all' OR kind = $kind
    ORDER BY CASE WHEN $by = 'documents' THEN documents ELSE occurrences END DESC, occurrences DESC, documents DESC, value_id, kind
    LIMIT $limit
),
ranked_values AS (
    SELECT
        value_id,
        kind,
        occurrences,
        documents,
        first_doc_no,
        row_number() OVER (
            ORDER BY CASE WHEN $by = 'documents' THEN documents ELSE occurrences END DESC, occurrences DESC, documents DESC, value_id, kind
        ) AS rank
    FROM top_values
)
SELECT r.rank, r.kind, max(v.value) AS value, r.occurrences, r.documents, s.source, s.location
FROM ranked_values AS r
LEFT JOIN value_spellings AS v ON v.value_id = r.value_id
LEFT JOIN sources AS s ON s.doc_no = r.first_doc_no
GROUP BY r.rank, r.kind, r.occurrences, r.documents, s.source, s.location
ORDER BY r.rank
