-- name: fates
-- does: What became of every occurrence. Rows without a section tell how often each value stands afterwards: originals by value, stand-ins
--       by their text; what is no value any more (a label, nothing, taken with another kind's edit, in a dropped document) is one row a kind.
--       Rows with a section (a header field, body, or '' for no mail) count the same occurrences by where they stood.
-- reads: occurrences, drops, edits_made (doc_no, cell, start_byte, stop_byte, replacement, kind)
-- gives: kind, fate, section, occurrences, distinct_values
-- takes: nothing
WITH touched AS (
    -- the few that an edit overlaps which is not just theirs, by each such edit. Edits are disjoint: none of these has one of its own besides
    SELECT
        o.doc_no,
        o.cell,
        o.start_byte,
        o.stop_byte,
        o.kind,
        e.start_byte AS edit_start,
        CASE WHEN e.kind = o.kind THEN e.replacement END AS replacement
    FROM occurrences AS o
    INNER JOIN edits_made AS e
        ON e.doc_no = o.doc_no AND e.cell = o.cell AND e.start_byte < o.stop_byte AND e.stop_byte > o.start_byte
    WHERE e.start_byte <> o.start_byte OR e.stop_byte <> o.stop_byte OR e.kind <> o.kind
),
apart AS (
    -- by the edits of their own kind where there are any, else once
    SELECT DISTINCT doc_no, cell, start_byte, stop_byte, kind, edit_start, replacement
    FROM touched
    WHERE replacement IS NOT NULL
    UNION ALL
    SELECT doc_no, cell, start_byte, stop_byte, kind, CAST(NULL AS BIGINT) AS edit_start, CAST(NULL AS VARCHAR) AS replacement
    FROM touched
    GROUP BY doc_no, cell, start_byte, stop_byte, kind
    HAVING count(replacement) = 0
),
placed AS (
    SELECT
        o.kind,
        o.value_id,
        coalesce(own.replacement, a.replacement) AS replacement,
        coalesce(o.section, '') AS section,
        CASE
            WHEN EXISTS (SELECT 1 FROM drops AS d WHERE d.doc_no = o.doc_no) THEN 'dropped'
            WHEN coalesce(own.replacement, a.replacement) = '' THEN 'removed'
            WHEN substr(coalesce(own.replacement, a.replacement), 2, length(o.kind)) = o.kind THEN 'label'
            WHEN coalesce(own.replacement, a.replacement) IS NOT NULL THEN 'stand_in'
            WHEN a.doc_no IS NOT NULL THEN 'with_another'
            ELSE 'original'
        END AS fate
    FROM occurrences AS o
    LEFT JOIN edits_made AS own
        ON
            own.doc_no = o.doc_no
            AND own.cell = o.cell
            AND own.start_byte = o.start_byte
            AND own.stop_byte = o.stop_byte
            AND own.kind = o.kind
    LEFT JOIN apart AS a
        ON
            a.doc_no = o.doc_no
            AND a.cell = o.cell
            AND a.start_byte = o.start_byte
            AND a.stop_byte = o.stop_byte
            AND a.kind = o.kind
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
