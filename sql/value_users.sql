-- name: value_users
-- description: Distinct pairs of a value and a user with a document in which it occurs.
-- tables: occurrences, users
-- columns: value_id, user_no
-- params: none
SELECT DISTINCT o.value_id, u.user_no
FROM occurrences AS o
JOIN users AS u ON u.doc_no = o.doc_no
ORDER BY o.value_id, u.user_no
