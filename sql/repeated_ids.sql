-- name: repeated_ids
-- does: The ids that more than one document has, as keyed hashes, most frequent first.
-- reads: ids
-- gives: id, documents
-- takes: nothing
SELECT id, count(*) AS documents
FROM ids
GROUP BY id
HAVING count(*) > 1
ORDER BY documents DESC, id
