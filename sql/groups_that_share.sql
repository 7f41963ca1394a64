-- name: groups_that_share
-- does: The groups in which a thing stands that stands in another group too. As `doc_no`: a group is a document here.
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
