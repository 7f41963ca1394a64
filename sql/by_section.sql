-- name: by_section
-- does: Where occurrences stand: which header field of a mail, its body, or a text that is no mail.
-- reads: occurrences
-- gives: place, section, kind, occurrences, documents
-- takes: $kind = 'all'
WITH placed AS (
    SELECT
        CASE WHEN section IS NULL THEN 'text' WHEN section = 'body' THEN 'body' ELSE 'header' END AS place,
        coalesce(section, '') AS section,
        kind,
        doc_no
    FROM occurrences
    WHERE $kind = 'all' OR kind = $kind
)
SELECT place, section, kind, count(*) AS occurrences, count(DISTINCT doc_no) AS documents
FROM placed
GROUP BY place, section, kind
ORDER BY occurrences DESC, place, section, kind
