-- name: outcomes
-- description: Outcome of every occurrence. Rows without a section count how often each value occurs in the output: originals by value,
--              surrogates by text. Occurrences without a value in the output (replaced by a label or another text, deleted, covered by an
--              edit of another kind, in a dropped document) are one row per kind. Rows with a section (a header field, body, or '' for a text that is not a
--              mail) count the same occurrences by their location in the input. Counts the rows with a result_id from $min_result_id to
--              $max_result_id; the counts of disjoint ranges add up.
-- tables: shard_outcomes (kind, outcome, section, result_id, occurrences)
-- columns: kind, outcome, section, occurrences, distinct_values
-- params: $min_result_id = 0, $max_result_id = 9223372036854775807
WITH result_counts AS (
    SELECT kind, outcome, section, CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM shard_outcomes
    WHERE result_id BETWEEN $min_result_id AND $max_result_id
    GROUP BY kind, outcome, section, result_id
)
SELECT kind, outcome, section, occurrences, count(*) AS distinct_values
FROM result_counts
GROUP BY kind, outcome, section, occurrences
ORDER BY kind, outcome, section NULLS FIRST, occurrences DESC
