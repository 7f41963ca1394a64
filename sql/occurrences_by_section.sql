-- name: occurrences_by_section
-- description: Occurrences by location: header field of a mail, body of a mail, or a text that is not a mail.
-- tables: occurrences
-- columns: location, section, kind, occurrences, documents
-- params: $kind = 'all'
WITH document_counts AS (
    SELECT section, kind, doc_no, count(*) AS occurrences
    FROM occurrences
    WHERE $kind = 'all' OR kind = $kind
    GROUP BY section, kind, doc_no
)
SELECT
    CASE WHEN section IS NULL THEN 'text' WHEN section = 'body' THEN 'body' ELSE 'header' END AS location,
    coalesce(section, '') AS section,
    kind,
    CAST(sum(occurrences) AS BIGINT) AS occurrences,
    count(*) AS documents
FROM document_counts
GROUP BY document_counts.section, kind
ORDER BY occurrences DESC, location, section, kind
