-- name: co_occurring
-- does: Pairs of values that occur together in the most documents, among the $among values that occur in the most documents. share is the
--       share of the rarer value's documents.
-- reads: occurrences, value_counts, value_spellings
-- gives: kind, value, other_kind, other_value, documents, share
-- takes: $kind = 'all', $among = 200, $limit = 20
WITH chosen AS (
    SELECT value_id, kind, documents
    FROM value_counts
    WHERE ($kind = 'all' OR kind = $kind) AND documents > 1
    ORDER BY documents DESC, occurrences DESC, value_id, kind
    LIMIT $among
),
held AS (
    SELECT DISTINCT o.doc_no, o.value_id
    FROM occurrences AS o
    WHERE o.value_id IN (SELECT value_id FROM chosen)
),
pairs AS (
    SELECT a.value_id, b.value_id AS other_id, count(*) AS documents
    FROM held AS a
    JOIN held AS b ON b.doc_no = a.doc_no AND b.value_id > a.value_id
    GROUP BY a.value_id, b.value_id
    HAVING count(*) > 1
),
most AS (
    SELECT
        p.value_id,
        p.other_id,
        p.documents,
        CAST(p.documents AS DOUBLE) / CASE WHEN c.documents < d.documents THEN c.documents ELSE d.documents END AS share,
        c.kind,
        d.kind AS other_kind
    FROM pairs AS p
    JOIN chosen AS c ON c.value_id = p.value_id
    JOIN chosen AS d ON d.value_id = p.other_id
    ORDER BY p.documents DESC, share DESC, p.value_id, p.other_id
    LIMIT $limit
),
spelled AS (
    SELECT value_id, max(value) AS value
    FROM value_spellings
    WHERE value_id IN (SELECT value_id FROM most) OR value_id IN (SELECT other_id FROM most)
    GROUP BY value_id
)
SELECT m.kind, v.value, m.other_kind, w.value AS other_value, m.documents, round(m.share, 4) AS share
FROM most AS m
LEFT JOIN spelled AS v ON v.value_id = m.value_id
LEFT JOIN spelled AS w ON w.value_id = m.other_id
ORDER BY m.documents DESC, m.share DESC, m.value_id, m.other_id
