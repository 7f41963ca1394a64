-- name: ledger_summary
-- does: Epsilon that the privacy mechanisms of the shown run claim to have spent, by part and unit. The epsilon of a document is the sum
--       over its units.
-- reads: ledger
-- gives: part, privacy_unit, documents, unit_count, epsilon_per_unit, epsilon_per_document, epsilon_of_worst
-- takes: nothing
WITH spent AS (
    SELECT
        part,
        privacy_unit,
        doc_no,
        CAST(sum(unit_count) AS BIGINT) AS unit_count,
        max(epsilon_per_unit) AS epsilon_per_unit,
        CAST(sum(unit_count * epsilon_per_unit) AS DOUBLE) AS epsilon
    FROM ledger
    GROUP BY part, privacy_unit, doc_no
)
SELECT
    part,
    privacy_unit,
    count(*) AS documents,
    CAST(sum(unit_count) AS BIGINT) AS unit_count,
    max(epsilon_per_unit) AS epsilon_per_unit,
    round(CAST(sum(epsilon) AS DOUBLE) / count(*), 4) AS epsilon_per_document,
    round(max(epsilon), 4) AS epsilon_of_worst
FROM spent
GROUP BY part, privacy_unit
ORDER BY part, privacy_unit
