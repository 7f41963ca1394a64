-- name: known_values
-- does: Every distinct value of the chosen kinds: its identity form, and of its spellings the first in bytewise order.
-- reads: values (value_id, kind, value, normalised), chosen_kinds (kind)
-- gives: value_id, kind, value, normalised
-- takes: nothing
SELECT
    v.value_id,
    v.kind,
    min(v.value) AS value,
    min(coalesce(v.normalised, v.value)) AS normalised
FROM "values" AS v
WHERE v.kind IN (SELECT kind FROM chosen_kinds)
GROUP BY v.value_id, v.kind
ORDER BY v.kind, v.value_id
