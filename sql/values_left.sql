-- name: values_left
-- does: The values with occurrences that earlier parts left.
-- reads: occurrences_left (value_id)
-- gives: value_id
-- takes: nothing
SELECT DISTINCT value_id
FROM occurrences_left
ORDER BY value_id
