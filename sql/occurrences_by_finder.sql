-- name: occurrences_by_finder
-- description: Occurrences by kind and finder, with those that the leak check of a run swept as the finder `sweep`. The summary of a run
--              counts both: its `occurrences` of a kind that the plan edits are all rows of the kind, its `swept` is the row of the sweep.
--              The other queries count what the finders found. Documents that the run dropped are counted here, and not in the summary.
-- tables: occurrences, swept
-- columns: kind, finder, occurrences, documents
-- params: none
WITH every_occurrence AS (
    SELECT kind, finder, doc_no FROM occurrences
    UNION ALL
    SELECT kind, finder, doc_no FROM swept
)
SELECT kind, finder, count(*) AS occurrences, count(DISTINCT doc_no) AS documents
FROM every_occurrence
GROUP BY kind, finder
ORDER BY kind, occurrences DESC, finder
