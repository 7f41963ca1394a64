-- name: known_values
-- does: Every distinct value of the chosen kinds: its normalised form, and the bytewise first of its spellings.
-- reads: value_spellings (value_id, kind, value, normalised), chosen_kinds (kind)
-- gives: value_id, kind, value, normalised
-- takes: nothing
SELECT
    v.value_id,
    v.kind,
    min(v.value) AS value,
    min(coalesce(v.normalised, v.value)) AS normalised
FROM value_spellings AS v
WHERE v.kind IN (SELECT kind FROM chosen_kinds)
GROUP BY v.value_id, v.kind
ORDER BY v.kind, v.value_id
