-- name: subject_values
-- description: The values of one person that occur in the corpus, with the number of occurrences.
-- tables: occurrences, subject (value_id)
-- columns: value_id, occurrences
-- params: none
SELECT o.value_id AS value_id, count(*) AS occurrences
FROM occurrences AS o
WHERE o.value_id IN (SELECT s.value_id FROM subject AS s)
GROUP BY o.value_id
ORDER BY o.value_id
