-- name: top
-- does: The values that occur most often, or in the most documents, by rank.
-- reads: value_counts, value_spellings
-- gives: rank, kind, value, occurrences, documents
-- takes: $kind = 'all', $by = 'occurrences' | 'documents', $limit = 20
WITH most AS (
    SELECT value_id, kind, occurrences, documents
    FROM value_counts
    WHERE $kind = 'all' OR kind = $kind
    ORDER BY CASE WHEN $by = 'documents' THEN documents ELSE occurrences END DESC, occurrences DESC, documents DESC, value_id, kind
    LIMIT $limit
),
ranked AS (
    SELECT
        value_id,
        kind,
        occurrences,
        documents,
        row_number() OVER (
            ORDER BY CASE WHEN $by = 'documents' THEN documents ELSE occurrences END DESC, occurrences DESC, documents DESC, value_id, kind
        ) AS rank
    FROM most
)
SELECT r.rank, r.kind, max(v.value) AS value, r.occurrences, r.documents
FROM ranked AS r
LEFT JOIN value_spellings AS v ON v.value_id = r.value_id
GROUP BY r.rank, r.kind, r.occurrences, r.documents
ORDER BY r.rank
