-- name: value_users
-- does: Distinct pairs of a value and a user in whose documents it occurs.
-- reads: occurrences, users
-- gives: value_id, user_no
-- takes: nothing
SELECT DISTINCT o.value_id, u.user_no
FROM occurrences AS o
JOIN users AS u ON u.doc_no = o.doc_no
ORDER BY o.value_id, u.user_no
