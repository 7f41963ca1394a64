-- name: fates
-- does: Outcome of every occurrence. Rows without a section count how often each value occurs in the output: originals by value,
--       surrogates by text; occurrences that are no value any more (replaced by a label, deleted, covered by an edit of another kind, in
--       a dropped document) are one row per kind. Rows with a section (a header field, body, or '' for a text that is not a mail) count
--       the same occurrences by their location in the input. Counts the values from $low to $high; the counts of disjoint ranges add up.
-- reads: standing (kind, fate, section, standing, occurrences)
-- gives: kind, fate, section, occurrences, distinct_values
-- takes: $low = 0, $high = 9223372036854775807
WITH summed AS (
    SELECT kind, fate, section, CAST(sum(occurrences) AS BIGINT) AS occurrences
    FROM standing
    WHERE standing BETWEEN $low AND $high
    GROUP BY kind, fate, section, standing
)
SELECT kind, fate, section, occurrences, count(*) AS distinct_values
FROM summed
GROUP BY kind, fate, section, occurrences
ORDER BY kind, fate, section NULLS FIRST, occurrences DESC
