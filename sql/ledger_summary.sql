-- name: ledger_summary
-- description: Epsilon that the privacy mechanisms of the selected run claim to have spent, by part and unit. The epsilon of a document is
--              the sum over its units; the last columns are its mean and its maximum over the documents.
-- tables: ledger
-- columns: part, privacy_unit, documents, unit_count, epsilon_per_unit, epsilon_per_document, max_epsilon_per_document
-- params: none
WITH document_epsilons AS (
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
    round(max(epsilon), 4) AS max_epsilon_per_document
FROM document_epsilons
GROUP BY part, privacy_unit
ORDER BY part, privacy_unit
