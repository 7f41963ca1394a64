-- name: fates
-- does: What became of every occurrence. Rows without a section tell how often each value stands afterwards: originals by value, stand-ins
--       by their text; what is no value any more (a label, nothing, taken with another kind's edit, in a dropped document) is one row a kind.
--       Rows with a section (a header field, body, or '' for no mail) count the same occurrences by where they stood.
--       Of the values from $low to $high, which are always given: what several ranges say of one number of occurrences adds up.
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
