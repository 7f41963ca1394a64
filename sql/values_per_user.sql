-- name: values_per_user
-- description: The users with the most distinct values in their documents, and how many of these values occur in no other user's documents.
-- tables: occurrences, users, value_users
-- columns: user_no, documents, occurrences, distinct_values, exclusive_values
-- params: $kind = 'all', $limit = 20
WITH user_values AS (
    SELECT u.user_no, o.value_id, count(*) AS occurrences
    FROM occurrences AS o
    JOIN users AS u ON u.doc_no = o.doc_no
    WHERE $kind = 'all' OR o.kind = $kind
    GROUP BY u.user_no, o.value_id
),
value_user_counts AS (
    SELECT value_id, count(*) AS users
    FROM value_users
    GROUP BY value_id
),
top_users AS (
    SELECT
        p.user_no,
        CAST(sum(p.occurrences) AS BIGINT) AS occurrences,
        count(*) AS distinct_values,
        CAST(sum(CASE WHEN s.users = 1 THEN 1 ELSE 0 END) AS BIGINT) AS exclusive_values
    FROM user_values AS p
    JOIN value_user_counts AS s ON s.value_id = p.value_id
    GROUP BY p.user_no
    ORDER BY distinct_values DESC, occurrences DESC, p.user_no
    LIMIT $limit
),
document_counts AS (
    SELECT user_no, count(*) AS documents
    FROM users
    GROUP BY user_no
)
SELECT m.user_no, w.documents, m.occurrences, m.distinct_values, m.exclusive_values
FROM top_users AS m
JOIN document_counts AS w ON w.user_no = m.user_no
ORDER BY m.distinct_values DESC, m.occurrences DESC, m.user_no
