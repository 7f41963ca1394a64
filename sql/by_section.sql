-- name: by_section
-- does: Occurrences by location: header field of a mail, body of a mail, or a text that is not a mail.
-- reads: occurrences
-- gives: place, section, kind, occurrences, documents
-- takes: $kind = 'all'
WITH held AS (
    SELECT section, kind, doc_no, count(*) AS times
    FROM occurrences
    WHERE $kind = 'all' OR kind = $kind
    GROUP BY section, kind, doc_no
)
SELECT
    CASE WHEN section IS NULL THEN 'text' WHEN section = 'body' THEN 'body' ELSE 'header' END AS place,
    coalesce(section, '') AS section,
    kind,
    CAST(sum(times) AS BIGINT) AS occurrences,
    count(*) AS documents
FROM held
GROUP BY held.section, kind
ORDER BY occurrences DESC, place, section, kind
