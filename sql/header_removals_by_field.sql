-- name: header_removals_by_field
-- description: Number of removed occurrences by header field, with the number of removed spans and of whole lines among them.
-- tables: removed_occurrences (doc_no, cell, start_byte, field, whole_line)
-- columns: field, occurrences, spans, lines
-- params: none
WITH removed_spans AS (
    SELECT field, doc_no, cell, start_byte, max(whole_line) AS whole_line, count(*) AS occurrences
    FROM removed_occurrences
    GROUP BY field, doc_no, cell, start_byte
)
SELECT
    field,
    CAST(sum(occurrences) AS BIGINT) AS occurrences,
    count(*) AS spans,
    CAST(sum(whole_line) AS BIGINT) AS lines
FROM removed_spans
GROUP BY field
ORDER BY occurrences DESC, field
