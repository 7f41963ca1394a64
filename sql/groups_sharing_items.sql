-- name: groups_sharing_items
-- description: The groups with an item that also occurs in another group. A group is a document here, hence the column doc_no.
-- tables: items (group_no, item_id)
-- columns: doc_no
-- params: none
WITH shared_items AS (
    SELECT item_id
    FROM items
    GROUP BY item_id
    HAVING count(*) > 1
)
SELECT DISTINCT i.group_no AS doc_no
FROM items AS i
JOIN shared_items AS s ON s.item_id = i.item_id
ORDER BY doc_no
