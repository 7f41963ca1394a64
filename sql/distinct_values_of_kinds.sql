-- name: distinct_values_of_kinds
-- description: Every distinct value of the chosen kinds: the bytewise first of its spellings, and its normalised form.
-- tables: value_spellings (value_id, kind, value, normalised), chosen_kinds (kind)
-- columns: value_id, kind, value, normalised
-- params: none
SELECT
    v.value_id,
    v.kind,
    min(v.value) AS value,
    min(coalesce(v.normalised, v.value)) AS normalised
FROM value_spellings AS v
WHERE v.kind IN (SELECT kind FROM chosen_kinds)
GROUP BY v.value_id, v.kind
ORDER BY v.kind, v.value_id
