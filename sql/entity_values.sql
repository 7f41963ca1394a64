-- name: entity_values
-- description: Every value of the chosen kinds that is linked to an entity (a person), with its entity_id and its normalised form.
-- tables: occurrences (kind, value_id, entity_id), value_spellings (value_id, kind, value, normalised), chosen_kinds (kind)
-- columns: value_id, entity_id, kind, value
-- params: none
SELECT
    v.value_id,
    o.entity_id,
    v.kind,
    min(coalesce(v.normalised, v.value)) AS value
FROM value_spellings AS v
INNER JOIN (
    SELECT DISTINCT value_id, entity_id FROM occurrences WHERE entity_id IS NOT NULL
) AS o ON v.value_id = o.value_id
WHERE v.kind IN (SELECT kind FROM chosen_kinds)
GROUP BY v.value_id, o.entity_id, v.kind
ORDER BY v.value_id, v.kind
