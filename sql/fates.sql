-- name: fates
-- does: What became of every occurrence. Rows without a section tell how often each value stands afterwards: originals by value, stand-ins
--       by their text; what is no value any more (a label, nothing, taken with another kind's edit, in a dropped document) is one row a kind.
--       Rows with a section (a header field, body, or '' for no mail) count the same occurrences by where they stood.
-- reads: occurrences, drops, edits_made (doc_no, cell, start_byte, stop_byte, replacement, kind)
-- gives: kind, fate, section, occurrences, distinct_values
-- takes: nothing
WITH placed AS (
    SELECT
        o.kind,
        o.value_id,
        own.replacement,
        coalesce(o.section, '') AS section,
        CASE
            WHEN EXISTS (SELECT 1 FROM drops AS d WHERE d.doc_no = o.doc_no) THEN 'dropped'
            WHEN own.replacement = '' THEN 'removed'
            WHEN substr(own.replacement, 2, length(o.kind)) = o.kind THEN 'label'
            WHEN own.replacement IS NOT NULL THEN 'stand_in'
            WHEN EXISTS (
                SELECT 1
                FROM edits_made AS e
                WHERE e.doc_no = o.doc_no AND e.cell = o.cell AND e.start_byte < o.stop_byte AND e.stop_byte > o.start_byte
            ) THEN 'with_another'
            ELSE 'original'
        END AS fate
    FROM occurrences AS o
    LEFT JOIN edits_made AS own
        ON
            own.doc_no = o.doc_no
            AND own.cell = o.cell
            AND own.kind = o.kind
            AND own.start_byte < o.stop_byte
            AND own.stop_byte > o.start_byte
),
fated AS (
    SELECT
        kind,
        fate,
        section,
        CASE WHEN fate = 'original' THEN value_id END AS original,
        CASE WHEN fate = 'stand_in' THEN replacement END AS stand_in
    FROM placed
),
standing AS (
    SELECT kind, fate, section, original, stand_in, count(*) AS occurrences
    FROM fated
    GROUP BY GROUPING SETS ((kind, fate, original, stand_in), (kind, fate, section))
)
SELECT kind, fate, section, occurrences, count(*) AS distinct_values
FROM standing
GROUP BY kind, fate, section, occurrences
ORDER BY kind, fate, section NULLS FIRST, occurrences DESC
