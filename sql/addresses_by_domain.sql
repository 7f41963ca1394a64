-- name: addresses_by_domain
-- description: E-mail addresses by domain. Without --reveal, domains of the same masked shape are counted together (e***.com); with
--              --reveal, each separately.
-- tables: value_counts, value_spellings
-- columns: domain, distinct_values, occurrences
-- params: $limit = 20
WITH addresses AS (
    SELECT value_id, min(lower(coalesce(normalised, value))) AS address
    FROM value_spellings
    WHERE kind = 'EMAIL_ADDRESS'
    GROUP BY value_id
),
domains AS (
    SELECT value_id, reverse(split_part(reverse(address), '@', 1)) AS domain
    FROM addresses
)
SELECT d.domain, count(*) AS distinct_values, CAST(sum(v.occurrences) AS BIGINT) AS occurrences
FROM domains AS d
JOIN value_counts AS v ON v.value_id = d.value_id
GROUP BY d.domain
ORDER BY occurrences DESC, d.domain
LIMIT $limit
