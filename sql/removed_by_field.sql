-- name: removed_by_field
-- does: Number of removed occurrences by header field, with the number of removed spans and of whole lines among them.
-- reads: goes (doc_no, cell, start_byte, field, whole_line)
-- gives: field, occurrences, spans, lines
-- takes: nothing
WITH spans AS (
    SELECT field, doc_no, cell, start_byte, max(whole_line) AS whole_line, count(*) AS occurrences
    FROM goes
    GROUP BY field, doc_no, cell, start_byte
)
SELECT
    field,
    CAST(sum(occurrences) AS BIGINT) AS occurrences,
    count(*) AS spans,
    CAST(sum(whole_line) AS BIGINT) AS lines
FROM spans
GROUP BY field
ORDER BY occurrences DESC, field
