-- name: remaining_values
-- description: The values with occurrences that remain after earlier parts.
-- tables: remaining_occurrences (value_id)
-- columns: value_id
-- params: none
SELECT DISTINCT value_id
FROM remaining_occurrences
ORDER BY value_id
