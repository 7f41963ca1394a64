-- name: co_occurring_values
-- description: Pairs of values that occur together in the most documents, among the $candidates values that occur in the most documents.
--              share is the share of the documents of the rarer value.
-- tables: occurrences, value_counts, value_spellings
-- columns: kind, value, other_kind, other_value, documents, share
-- params: $kind = 'all', $candidates = 200, $limit = 20
WITH candidate_values AS (
    SELECT value_id, kind, documents
    FROM value_counts
    WHERE ($kind = 'all' OR kind = $kind) AND documents > 1
    ORDER BY documents DESC, occurrences DESC, value_id, kind
    LIMIT $candidates
),
document_values AS (
    SELECT DISTINCT o.doc_no, o.value_id
    FROM occurrences AS o
    WHERE o.value_id IN (SELECT value_id FROM candidate_values)
),
value_pairs AS (
    SELECT a.value_id, b.value_id AS other_id, count(*) AS documents
    FROM document_values AS a
    JOIN document_values AS b ON b.doc_no = a.doc_no AND b.value_id > a.value_id
    GROUP BY a.value_id, b.value_id
    HAVING count(*) > 1
),
top_pairs AS (
    SELECT
        p.value_id,
        p.other_id,
        p.documents,
        CAST(p.documents AS DOUBLE) / CASE WHEN c.documents < d.documents THEN c.documents ELSE d.documents END AS share,
        c.kind,
        d.kind AS other_kind
    FROM value_pairs AS p
    JOIN candidate_values AS c ON c.value_id = p.value_id
    JOIN candidate_values AS d ON d.value_id = p.other_id
    ORDER BY p.documents DESC, share DESC, p.value_id, p.other_id
    LIMIT $limit
),
spellings AS (
    SELECT value_id, max(value) AS value
    FROM value_spellings
    WHERE value_id IN (SELECT value_id FROM top_pairs) OR value_id IN (SELECT other_id FROM top_pairs)
    GROUP BY value_id
)
SELECT m.kind, v.value, m.other_kind, w.value AS other_value, m.documents, round(m.share, 4) AS share
FROM top_pairs AS m
LEFT JOIN spellings AS v ON v.value_id = m.value_id
LEFT JOIN spellings AS w ON w.value_id = m.other_id
ORDER BY m.documents DESC, m.share DESC, m.value_id, m.other_id
