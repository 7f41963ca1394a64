-- name: repeated_items
-- description: The items that occur in more than one group, numbered from 0, with their groups, ordered by group.
-- tables: items (group_no, item_id)
-- columns: group_no, item_no
-- params: none
WITH distinct_items AS (
    SELECT DISTINCT group_no, item_id
    FROM items
),
repeated_items AS (
    SELECT item_id, row_number() OVER (ORDER BY item_id) - 1 AS item_no
    FROM distinct_items
    GROUP BY item_id
    HAVING count(*) > 1
)
SELECT d.group_no, r.item_no
FROM distinct_items AS d
JOIN repeated_items AS r ON r.item_id = d.item_id
ORDER BY d.group_no, r.item_no
