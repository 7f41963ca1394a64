-- name: subject_places
-- does: Where the values of one person occur: occurrences and documents by kind and section.
-- reads: occurrences, subject (value_id)
-- gives: kind, section, occurrences, documents
-- takes: nothing
SELECT
    o.kind AS kind,
    o.section AS section,
    count(*) AS occurrences,
    count(DISTINCT o.doc_no) AS documents
FROM occurrences AS o
WHERE o.value_id IN (SELECT s.value_id FROM subject AS s)
GROUP BY o.kind, o.section
ORDER BY o.kind, o.section
