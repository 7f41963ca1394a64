-- name: top_by_users
-- does: The values that occur in the documents of the most users, by rank.
-- reads: value_users, value_counts, value_spellings
-- gives: rank, kind, value, users, occurrences, documents
-- takes: $kind = 'all', $limit = 20
WITH counted AS (
    SELECT value_id, count(*) AS users
    FROM value_users
    GROUP BY value_id
),
most AS (
    SELECT c.value_id, v.kind, c.users, v.occurrences, v.documents
    FROM counted AS c
    JOIN value_counts AS v ON v.value_id = c.value_id
    WHERE $kind = 'all' OR v.kind = $kind
    ORDER BY c.users DESC, v.occurrences DESC, v.documents DESC, c.value_id, v.kind
    LIMIT $limit
),
ranked AS (
    SELECT
        value_id,
        kind,
        users,
        occurrences,
        documents,
        row_number() OVER (ORDER BY users DESC, occurrences DESC, documents DESC, value_id, kind) AS rank
    FROM most
)
SELECT r.rank, r.kind, max(v.value) AS value, r.users, r.occurrences, r.documents
FROM ranked AS r
LEFT JOIN value_spellings AS v ON v.value_id = r.value_id
GROUP BY r.rank, r.kind, r.users, r.occurrences, r.documents
ORDER BY r.rank
