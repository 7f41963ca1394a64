-- name: groups_that_share
-- does: The groups with a thing that also occurs in another group. A group is a document here, so the column is doc_no.
-- reads: things (group_no, thing_id)
-- gives: doc_no
-- takes: nothing
WITH shared AS (
    SELECT thing_id
    FROM things
    GROUP BY thing_id
    HAVING count(*) > 1
)
SELECT DISTINCT t.group_no AS doc_no
FROM things AS t
JOIN shared AS s ON s.thing_id = t.thing_id
ORDER BY doc_no
