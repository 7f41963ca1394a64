-- name: identifiers_per_user
-- does: The users with the most distinct values in their documents, and how many of these values occur in no other user's documents.
-- reads: occurrences, users, value_users
-- gives: user_no, documents, occurrences, distinct_values, only_here
-- takes: $kind = 'all', $limit = 20
WITH placed AS (
    SELECT u.user_no, o.value_id, count(*) AS occurrences
    FROM occurrences AS o
    JOIN users AS u ON u.doc_no = o.doc_no
    WHERE $kind = 'all' OR o.kind = $kind
    GROUP BY u.user_no, o.value_id
),
shared AS (
    SELECT value_id, count(*) AS users
    FROM value_users
    GROUP BY value_id
),
most AS (
    SELECT
        p.user_no,
        CAST(sum(p.occurrences) AS BIGINT) AS occurrences,
        count(*) AS distinct_values,
        CAST(sum(CASE WHEN s.users = 1 THEN 1 ELSE 0 END) AS BIGINT) AS only_here
    FROM placed AS p
    JOIN shared AS s ON s.value_id = p.value_id
    GROUP BY p.user_no
    ORDER BY distinct_values DESC, occurrences DESC, p.user_no
    LIMIT $limit
),
written AS (
    SELECT user_no, count(*) AS documents
    FROM users
    GROUP BY user_no
)
SELECT m.user_no, w.documents, m.occurrences, m.distinct_values, m.only_here
FROM most AS m
JOIN written AS w ON w.user_no = m.user_no
ORDER BY m.distinct_values DESC, m.occurrences DESC, m.user_no
