-- name: document_users
-- description: The number of the user of every document. Users are numbered from 0 in the order of their first documents; documents without
--              a user_id are left out.
-- tables: documents (doc_no, user_id)
-- columns: doc_no, user_no
-- params: none
WITH user_numbers AS (
    SELECT user_id, row_number() OVER (ORDER BY first_doc_no) - 1 AS user_no
    FROM (
        SELECT user_id, min(doc_no) AS first_doc_no
        FROM documents
        WHERE user_id IS NOT NULL
        GROUP BY user_id
    ) AS first_documents
)
SELECT d.doc_no, n.user_no
FROM documents AS d
JOIN user_numbers AS n ON n.user_id = d.user_id
ORDER BY d.doc_no
