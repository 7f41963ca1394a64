-- name: subject_sections
-- description: Sections in which the values of one person occur: occurrences and documents by kind and section.
-- tables: occurrences, subject (value_id)
-- columns: kind, section, occurrences, documents
-- params: none
SELECT
    o.kind AS kind,
    o.section AS section,
    count(*) AS occurrences,
    count(DISTINCT o.doc_no) AS documents
FROM occurrences AS o
WHERE o.value_id IN (SELECT s.value_id FROM subject AS s)
GROUP BY o.kind, o.section
ORDER BY o.kind, o.section
