-- name: top_values
-- description: The values that occur most often, or in the most documents, by rank.
-- tables: value_counts, value_spellings
-- columns: rank, kind, value, occurrences, documents
-- params: $kind = 'all', $by = 'occurrences' | 'documents', $limit = 20
WITH top_values AS (
    SELECT value_id, kind, occurrences, documents
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
        row_number() OVER (
            ORDER BY CASE WHEN $by = 'documents' THEN documents ELSE occurrences END DESC, occurrences DESC, documents DESC, value_id, kind
        ) AS rank
    FROM top_values
)
SELECT r.rank, r.kind, max(v.value) AS value, r.occurrences, r.documents
FROM ranked_values AS r
LEFT JOIN value_spellings AS v ON v.value_id = r.value_id
GROUP BY r.rank, r.kind, r.occurrences, r.documents
ORDER BY r.rank
