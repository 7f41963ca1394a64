-- name: top_values_by_users
-- description: The values that occur in the documents of the most users, by rank.
-- tables: value_users, value_counts, value_spellings
-- columns: rank, kind, value, users, occurrences, documents
-- params: $kind = 'all', $limit = 20
WITH user_counts AS (
    SELECT value_id, count(*) AS users
    FROM value_users
    GROUP BY value_id
),
top_values AS (
    SELECT c.value_id, v.kind, c.users, v.occurrences, v.documents
    FROM user_counts AS c
    JOIN value_counts AS v ON v.value_id = c.value_id
    WHERE $kind = 'all' OR v.kind = $kind
    ORDER BY c.users DESC, v.occurrences DESC, v.documents DESC, c.value_id, v.kind
    LIMIT $limit
),
ranked_values AS (
    SELECT
        value_id,
        kind,
        users,
        occurrences,
        documents,
        row_number() OVER (ORDER BY users DESC, occurrences DESC, documents DESC, value_id, kind) AS rank
    FROM top_values
)
SELECT r.rank, r.kind, max(v.value) AS value, r.users, r.occurrences, r.documents
FROM ranked_values AS r
LEFT JOIN value_spellings AS v ON v.value_id = r.value_id
GROUP BY r.rank, r.kind, r.users, r.occurrences, r.documents
ORDER BY r.rank
