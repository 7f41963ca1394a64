-- name: ledger_summary
-- does: What the mechanisms of the shown run claim to have spent, by part and unit. The epsilon of a document is the sum over its units.
-- reads: ledger
-- gives: part, unit, documents, units, epsilon_per_unit, epsilon_per_document, epsilon_of_worst
-- takes: nothing
WITH spent AS (
    SELECT
        part,
        unit,
        doc_no,
        CAST(sum(units) AS BIGINT) AS units,
        max(epsilon_per_unit) AS epsilon_per_unit,
        CAST(sum(units * epsilon_per_unit) AS DOUBLE) AS epsilon
    FROM ledger
    GROUP BY part, unit, doc_no
)
SELECT
    part,
    unit,
    count(*) AS documents,
    CAST(sum(units) AS BIGINT) AS units,
    max(epsilon_per_unit) AS epsilon_per_unit,
    round(CAST(sum(epsilon) AS DOUBLE) / count(*), 4) AS epsilon_per_document,
    round(max(epsilon), 4) AS epsilon_of_worst
FROM spent
GROUP BY part, unit
ORDER BY part, unit
