-- name: entities
-- does: Every value of the chosen kinds that is known to be one person's, with that person and its identity form.
-- reads: occurrences (kind, value_id, entity_id), values (value_id, kind, value, normalised), chosen_kinds (kind)
-- gives: value_id, entity_id, kind, value
-- takes: nothing
SELECT
    v.value_id,
    o.entity_id,
    v.kind,
    min(coalesce(v.normalised, v.value)) AS value
FROM "values" AS v
INNER JOIN (
    SELECT DISTINCT value_id, entity_id FROM occurrences WHERE entity_id IS NOT NULL
) AS o ON v.value_id = o.value_id
WHERE v.kind IN (SELECT kind FROM chosen_kinds)
GROUP BY v.value_id, o.entity_id, v.kind
ORDER BY v.value_id, v.kind
