-- name: pseudonyms
-- description: The original values of each pseudonym or numbered label of the selected run, in one document or in all ($doc_no = -1): the
--              reverse mapping.
-- tables: labels, value_spellings
-- columns: pseudonym, kind, value, documents, first_doc_no
-- params: $doc_no = -1
WITH spellings AS (
    SELECT value_id, kind, min(value) AS value
    FROM value_spellings
    GROUP BY value_id, kind
)
SELECT
    l.label AS pseudonym,
    k.kind,
    k.value,
    count(DISTINCT l.doc_no) AS documents,
    min(l.doc_no) AS first_doc_no
FROM labels AS l
JOIN spellings AS k ON k.value_id = l.value_id
WHERE $doc_no = -1 OR l.doc_no = $doc_no
GROUP BY l.label, k.kind, k.value, l.value_id
ORDER BY l.label, k.kind, k.value, l.value_id
