-- name: users
-- does: The user of every document, by number. Users are numbered from 0 in the order of their first documents; documents without a
--       user_id are left out.
-- reads: documents (doc_no, user_id)
-- gives: doc_no, user_no
-- takes: nothing
WITH numbered AS (
    SELECT user_id, row_number() OVER (ORDER BY first_doc_no) - 1 AS user_no
    FROM (
        SELECT user_id, min(doc_no) AS first_doc_no
        FROM documents
        WHERE user_id IS NOT NULL
        GROUP BY user_id
    ) AS firsts
)
SELECT d.doc_no, n.user_no
FROM documents AS d
JOIN numbered AS n ON n.user_id = d.user_id
ORDER BY d.doc_no
