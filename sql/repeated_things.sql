-- name: repeated_things
-- does: The things that occur in more than one group, numbered from 0, with their groups, ordered by group.
-- reads: things (group_no, thing_id)
-- gives: group_no, thing
-- takes: nothing
WITH distinct_things AS (
    SELECT DISTINCT group_no, thing_id
    FROM things
),
repeated AS (
    SELECT thing_id, row_number() OVER (ORDER BY thing_id) - 1 AS thing
    FROM distinct_things
    GROUP BY thing_id
    HAVING count(*) > 1
)
SELECT d.group_no, r.thing
FROM distinct_things AS d
JOIN repeated AS r ON r.thing_id = d.thing_id
ORDER BY d.group_no, r.thing
