-- claimed_spans
SELECT
  `o`.`doc_no`,
  `o`.`cell`,
  `o`.`start_byte`,
  `o`.`end_byte`
FROM `remaining_occurrences` AS `o`
WHERE
  `o`.`kind` IN (
    SELECT
      `kind`
    FROM `chosen_kinds`
  )
  AND NOT EXISTS(
    SELECT
      1
    FROM `first_occurrences` AS `f`
    WHERE
      `f`.`doc_no` = `o`.`doc_no`
      AND `f`.`cell` = `o`.`cell`
      AND `f`.`start` = `o`.`start`
      AND `f`.`value_id` = `o`.`value_id`
  )
ORDER BY
  `o`.`doc_no` NULLS LAST,
  `o`.`cell` NULLS LAST,
  `o`.`start_byte` NULLS LAST,
  `o`.`end_byte` NULLS LAST

-- distinct_values_of_kinds
SELECT
  `v`.`value_id`,
  `v`.`kind`,
  MIN(`v`.`value`) AS `value`,
  MIN(COALESCE(`v`.`normalised`, `v`.`value`)) AS `normalised`
FROM `value_spellings` AS `v`
WHERE
  `v`.`kind` IN (
    SELECT
      `kind`
    FROM `chosen_kinds`
  )
GROUP BY
  `v`.`value_id`,
  `v`.`kind`
ORDER BY
  `v`.`kind` NULLS LAST,
  `v`.`value_id` NULLS LAST

-- document_values
SELECT DISTINCT
  `doc_no` AS `group_no`,
  `value_id` AS `item_id`
FROM `remaining_occurrences`
WHERE
  `kind` IN (
    SELECT
      `kind`
    FROM `chosen_kinds`
  )
ORDER BY
  `group_no` NULLS LAST,
  `item_id` NULLS LAST

-- entity_values
SELECT
  `v`.`value_id`,
  `o`.`entity_id`,
  `v`.`kind`,
  MIN(COALESCE(`v`.`normalised`, `v`.`value`)) AS `value`
FROM `value_spellings` AS `v`
INNER JOIN (
  SELECT DISTINCT
    `value_id`,
    `entity_id`
  FROM `occurrences`
  WHERE
    NOT `entity_id` IS NULL
) AS `o`
  ON `v`.`value_id` = `o`.`value_id`
WHERE
  `v`.`kind` IN (
    SELECT
      `kind`
    FROM `chosen_kinds`
  )
GROUP BY
  `v`.`value_id`,
  `o`.`entity_id`,
  `v`.`kind`
ORDER BY
  `v`.`value_id` NULLS LAST,
  `v`.`kind` NULLS LAST

-- exact_dup_links
WITH `first_documents` AS (
  SELECT
    `doc_no`,
    MIN(`doc_no`) OVER (PARTITION BY `high`, `low`) AS `kept_doc_no`
  FROM `digests`
)
SELECT
  `doc_no`,
  MIN(`kept_doc_no`) AS `kept_doc_no`
FROM `first_documents`
GROUP BY
  `doc_no`
HAVING
  MIN(`kept_doc_no`) < `doc_no`
ORDER BY
  `doc_no` NULLS LAST

-- first_occurrences
SELECT
  `doc_no`,
  `cell`,
  `start`,
  `value_id`
FROM (
  SELECT
    `doc_no`,
    `cell`,
    `start`,
    `value_id`,
    ROW_NUMBER() OVER (
      PARTITION BY `value_id`
      ORDER BY `doc_no` NULLS LAST, `cell` NULLS LAST, `start` NULLS LAST
    ) AS `occurrence_no`
  FROM `remaining_occurrences`
  WHERE
    `kind` IN (
      SELECT
        `kind`
      FROM `chosen_kinds`
    )
) AS `numbered_occurrences`
WHERE
  `occurrence_no` <= :keep
ORDER BY
  `doc_no` NULLS LAST,
  `cell` NULLS LAST,
  `start` NULLS LAST,
  `value_id` NULLS LAST

-- first_occurrences_from_counts
SELECT
  `first_doc_no` AS `doc_no`,
  `first_cell` AS `cell`,
  `first_start` AS `start`,
  `value_id`
FROM `value_counts`
WHERE
  `kind` IN (
    SELECT
      `kind`
    FROM `chosen_kinds`
  )
ORDER BY
  `doc_no` NULLS LAST,
  `cell` NULLS LAST,
  `start` NULLS LAST,
  `value_id` NULLS LAST

-- frequency_histogram
SELECT
  `kind`,
  `occurrences`,
  COUNT(*) AS `distinct_values`
FROM `value_counts`
WHERE
  :kind = 'all' OR `kind` = :kind
GROUP BY
  `kind`,
  `occurrences`
ORDER BY
  `kind` NULLS LAST,
  `occurrences` NULLS LAST

-- groups_sharing_items
WITH `shared_items` AS (
  SELECT
    `item_id`
  FROM `items`
  GROUP BY
    `item_id`
  HAVING
    COUNT(*) > 1
)
SELECT DISTINCT
  `i`.`group_no` AS `doc_no`
FROM `items` AS `i`
JOIN `shared_items` AS `s`
  ON `s`.`item_id` = `i`.`item_id`
ORDER BY
  `doc_no` NULLS LAST

-- header_removals
WITH `removed_units` AS (
  SELECT
    `u`.`doc_no`,
    `u`.`cell`,
    `u`.`start`,
    `u`.`item_id`,
    `u`.`field`,
    `u`.`line_start`,
    `u`.`line_end`,
    `u`.`entry_start`,
    `u`.`entry_end`,
    `u`.`previous_end`,
    `u`.`next_start`,
    `u`.`entry_no`,
    `u`.`entry_count`,
    DENSE_RANK() OVER (
      PARTITION BY `u`.`doc_no`, `u`.`cell`, `u`.`line_start`
      ORDER BY `u`.`group_no` NULLS LAST
    ) - 1 AS `removal_no`
  FROM `units` AS `u`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `removed_groups` AS `g`
      WHERE
        `g`.`group_no` = `u`.`group_no`
    )
), `removed_entry_counts` AS (
  SELECT
    `doc_no`,
    `cell`,
    `line_start`,
    MAX(`removal_no`) + 1 AS `removed_entries`
  FROM `removed_units`
  GROUP BY
    `doc_no`,
    `cell`,
    `line_start`
)
SELECT
  `n`.`doc_no`,
  `n`.`cell`,
  `n`.`start`,
  `n`.`item_id` AS `value_id`,
  CASE
    WHEN `c`.`removed_entries` = `n`.`entry_count`
    THEN `n`.`line_start`
    WHEN `n`.`removal_no` = `n`.`entry_no`
    THEN `n`.`entry_start`
    ELSE `n`.`previous_end`
  END AS `start_byte`,
  CASE
    WHEN `c`.`removed_entries` = `n`.`entry_count`
    THEN `n`.`line_end`
    WHEN `n`.`removal_no` = `n`.`entry_no`
    THEN `n`.`next_start`
    ELSE `n`.`entry_end`
  END AS `end_byte`,
  `n`.`field`,
  CASE WHEN `c`.`removed_entries` = `n`.`entry_count` THEN 1 ELSE 0 END AS `whole_line`
FROM `removed_units` AS `n`
JOIN `removed_entry_counts` AS `c`
  ON `c`.`doc_no` = `n`.`doc_no`
  AND `c`.`cell` = `n`.`cell`
  AND `c`.`line_start` = `n`.`line_start`
ORDER BY
  `n`.`doc_no` NULLS LAST,
  `n`.`cell` NULLS LAST,
  `n`.`start` NULLS LAST,
  `n`.`item_id` NULLS LAST

-- header_removals_by_field
WITH `removed_spans` AS (
  SELECT
    `field`,
    `doc_no`,
    `cell`,
    `start_byte`,
    MAX(`whole_line`) AS `whole_line`,
    COUNT(*) AS `occurrences`
  FROM `removed_occurrences`
  GROUP BY
    `field`,
    `doc_no`,
    `cell`,
    `start_byte`
)
SELECT
  `field`,
  CAST(SUM(`occurrences`) AS BIGINT) AS `occurrences`,
  COUNT(*) AS `spans`,
  CAST(SUM(`whole_line`) AS BIGINT) AS `lines`
FROM `removed_spans`
GROUP BY
  `field`
ORDER BY
  `occurrences` DESC,
  `field` NULLS LAST

-- header_units
SELECT
  DENSE_RANK() OVER (
    ORDER BY `h`.`doc_no` NULLS LAST, `h`.`cell` NULLS LAST, `h`.`unit_start` NULLS LAST
  ) - 1 AS `group_no`,
  `h`.`value_id` AS `item_id`,
  `h`.`doc_no`,
  `h`.`cell`,
  `h`.`start`,
  `h`.`field`,
  `h`.`line_start`,
  `h`.`line_end`,
  `h`.`entry_start`,
  `h`.`entry_end`,
  `h`.`previous_end`,
  `h`.`next_start`,
  `h`.`entry_no`,
  `h`.`entry_count`
FROM `header_occurrences` AS `h`
WHERE
  EXISTS(
    SELECT
      1
    FROM `remaining_occurrences` AS `o`
    WHERE
      `o`.`doc_no` = `h`.`doc_no`
      AND `o`.`cell` = `h`.`cell`
      AND `o`.`start` = `h`.`start`
      AND `o`.`value_id` = `h`.`value_id`
  )
ORDER BY
  `group_no` NULLS LAST,
  `h`.`start` NULLS LAST,
  `item_id` NULLS LAST

-- ledger_summary
WITH `document_epsilons` AS (
  SELECT
    `part`,
    `privacy_unit`,
    `doc_no`,
    CAST(SUM(`unit_count`) AS BIGINT) AS `unit_count`,
    MAX(`epsilon_per_unit`) AS `epsilon_per_unit`,
    CAST(SUM(`unit_count` * `epsilon_per_unit`) AS DOUBLE) AS `epsilon`
  FROM `ledger`
  GROUP BY
    `part`,
    `privacy_unit`,
    `doc_no`
)
SELECT
  `part`,
  `privacy_unit`,
  COUNT(*) AS `documents`,
  CAST(SUM(`unit_count`) AS BIGINT) AS `unit_count`,
  MAX(`epsilon_per_unit`) AS `epsilon_per_unit`,
  ROUND(CAST(SUM(`epsilon`) AS DOUBLE) / COUNT(*), 4) AS `epsilon_per_document`,
  ROUND(MAX(`epsilon`), 4) AS `max_epsilon_per_document`
FROM `document_epsilons`
GROUP BY
  `part`,
  `privacy_unit`
ORDER BY
  `part` NULLS LAST,
  `privacy_unit` NULLS LAST

-- near_dup_candidates
SELECT
  `doc_no`
FROM `pairs`
UNION
SELECT
  `earlier_doc_no` AS `doc_no`
FROM `pairs`
ORDER BY
  `doc_no` NULLS LAST

-- near_dup_links
WITH `shingle_counts` AS (
  SELECT
    `doc_no`,
    COUNT(*) AS `shingle_count`
  FROM `shingles`
  GROUP BY
    `doc_no`
), `common_shingle_counts` AS (
  SELECT
    `p`.`doc_no`,
    `p`.`earlier_doc_no`,
    COUNT(*) AS `common_count`
  FROM `pairs` AS `p`
  JOIN `shingles` AS `a`
    ON `a`.`doc_no` = `p`.`earlier_doc_no`
  JOIN `shingles` AS `b`
    ON `b`.`doc_no` = `p`.`doc_no` AND `b`.`shingle` = `a`.`shingle`
  GROUP BY
    `p`.`doc_no`,
    `p`.`earlier_doc_no`
)
SELECT
  `s`.`doc_no`,
  `s`.`earlier_doc_no`
FROM `common_shingle_counts` AS `s`
JOIN `shingle_counts` AS `later`
  ON `later`.`doc_no` = `s`.`doc_no`
JOIN `shingle_counts` AS `earlier`
  ON `earlier`.`doc_no` = `s`.`earlier_doc_no`
WHERE
  `s`.`common_count` >= :threshold * (
    `later`.`shingle_count` + `earlier`.`shingle_count` - `s`.`common_count`
  )
ORDER BY
  `s`.`doc_no` NULLS LAST,
  `s`.`earlier_doc_no` NULLS LAST

-- near_dup_pairs
WITH `digits` AS (
  SELECT
    0 AS `digit`
  UNION ALL
  SELECT
    1 AS `digit`
  UNION ALL
  SELECT
    2 AS `digit`
  UNION ALL
  SELECT
    3 AS `digit`
  UNION ALL
  SELECT
    4 AS `digit`
  UNION ALL
  SELECT
    5 AS `digit`
  UNION ALL
  SELECT
    6 AS `digit`
  UNION ALL
  SELECT
    7 AS `digit`
), `distances` AS (
  SELECT
    8 * `a`.`digit` + `b`.`digit` + 1 AS `distance`
  FROM `digits` AS `a`
  CROSS JOIN `digits` AS `b`
  WHERE
    8 * `a`.`digit` + `b`.`digit` < :neighbours
), `signature_groups` AS (
  SELECT
    `doc_no`,
    MIN(`doc_no`) OVER (PARTITION BY `hash`) AS `first_doc_no`
  FROM `bands`
  WHERE
    `band` = -1
), `representatives` AS (
  SELECT
    `b`.`band`,
    `b`.`hash`,
    `b`.`doc_no`
  FROM `bands` AS `b`
  JOIN `signature_groups` AS `a`
    ON `a`.`doc_no` = `b`.`doc_no`
  WHERE
    `b`.`band` >= 0 AND `a`.`first_doc_no` = `b`.`doc_no`
), `shared_buckets` AS (
  SELECT
    `band`,
    `hash`
  FROM `representatives`
  GROUP BY
    `band`,
    `hash`
  HAVING
    COUNT(*) > 1
), `bucket_members` AS (
  SELECT
    `c`.`band`,
    `c`.`hash`,
    `c`.`doc_no`,
    ROW_NUMBER() OVER (PARTITION BY `c`.`band`, `c`.`hash` ORDER BY `c`.`doc_no` NULLS LAST) AS `member_no`
  FROM `representatives` AS `c`
  JOIN `shared_buckets` AS `w`
    ON `w`.`band` = `c`.`band` AND `w`.`hash` = `c`.`hash`
), `candidate_pairs` AS (
  SELECT
    `doc_no`,
    `first_doc_no` AS `earlier_doc_no`
  FROM `signature_groups`
  WHERE
    `first_doc_no` < `doc_no`
  UNION
  SELECT
    `later`.`doc_no`,
    `earlier`.`doc_no` AS `earlier_doc_no`
  FROM `bucket_members` AS `later`
  JOIN `distances` AS `s`
    ON `s`.`distance` < `later`.`member_no`
  JOIN `bucket_members` AS `earlier`
    ON `earlier`.`band` = `later`.`band`
    AND `earlier`.`hash` = `later`.`hash`
    AND `earlier`.`member_no` = `later`.`member_no` - `s`.`distance`
  UNION
  SELECT
    `later`.`doc_no`,
    `earlier`.`doc_no` AS `earlier_doc_no`
  FROM `bucket_members` AS `later`
  JOIN `bucket_members` AS `earlier`
    ON `earlier`.`band` = `later`.`band` AND `earlier`.`hash` = `later`.`hash`
  WHERE
    `earlier`.`member_no` = 1 AND `later`.`member_no` > 1
)
SELECT
  `doc_no`,
  `earlier_doc_no`
FROM `candidate_pairs`
ORDER BY
  `doc_no` NULLS LAST,
  `earlier_doc_no` NULLS LAST

-- ngram_user_counts
WITH `ngram_summaries` AS (
  SELECT
    `ngram_id`,
    COUNT(*) AS `pair_count`,
    COUNT(`user_hash`) AS `user_count`,
    MIN(`user_hash`) AS `min_user_hash`,
    MAX(`user_hash`) AS `max_user_hash`
  FROM `ngram_users`
  GROUP BY
    `ngram_id`
), `distinct_user_counts` AS (
  SELECT
    `ngram_id`,
    COUNT(*) AS `users`
  FROM (
    SELECT DISTINCT
      `ngram_id`,
      `user_hash`
    FROM `ngram_users`
    WHERE
      :k > 2
  ) AS `distinct_pairs`
  GROUP BY
    `ngram_id`
)
SELECT
  `a`.`ngram_id`,
  CASE
    WHEN `a`.`pair_count` > `a`.`user_count`
    THEN CAST(:k AS BIGINT)
    WHEN `a`.`min_user_hash` = `a`.`max_user_hash`
    THEN 1
    WHEN `b`.`users` < :k
    THEN `b`.`users`
    ELSE CAST(:k AS BIGINT)
  END AS `users`
FROM `ngram_summaries` AS `a`
LEFT JOIN `distinct_user_counts` AS `b`
  ON `b`.`ngram_id` = `a`.`ngram_id`
ORDER BY
  `a`.`ngram_id` NULLS LAST

-- outcomes
WITH `result_counts` AS (
  SELECT
    `kind`,
    `outcome`,
    `section`,
    CAST(SUM(`occurrences`) AS BIGINT) AS `occurrences`
  FROM `shard_outcomes`
  WHERE
    `result_id` BETWEEN :min_result_id AND :max_result_id
  GROUP BY
    `kind`,
    `outcome`,
    `section`,
    `result_id`
)
SELECT
  `kind`,
  `outcome`,
  `section`,
  `occurrences`,
  COUNT(*) AS `distinct_values`
FROM `result_counts`
GROUP BY
  `kind`,
  `outcome`,
  `section`,
  `occurrences`
ORDER BY
  `kind` NULLS LAST,
  `outcome` NULLS LAST,
  `section`,
  `occurrences` DESC

-- remaining_kind_counts
WITH `occurrence_counts` AS (
  SELECT
    `kind`,
    COUNT(*) AS `occurrences`
  FROM `remaining_occurrences`
  GROUP BY
    `kind`
), `distinct_value_counts` AS (
  SELECT
    `kind`,
    COUNT(*) AS `distinct_values`
  FROM (
    SELECT DISTINCT
      `kind`,
      `value_id`
    FROM `remaining_occurrences`
  ) AS `v`
  GROUP BY
    `kind`
), `document_counts` AS (
  SELECT
    `kind`,
    COUNT(*) AS `documents`
  FROM (
    SELECT DISTINCT
      `kind`,
      `doc_no`
    FROM `remaining_occurrences`
  ) AS `d`
  GROUP BY
    `kind`
)
SELECT
  `c`.`kind`,
  `c`.`occurrences`,
  `v`.`distinct_values`,
  `h`.`documents`
FROM `occurrence_counts` AS `c`
JOIN `distinct_value_counts` AS `v`
  ON `v`.`kind` = `c`.`kind`
JOIN `document_counts` AS `h`
  ON `h`.`kind` = `c`.`kind`
ORDER BY
  `c`.`kind` NULLS LAST

-- remaining_occurrences
SELECT
  `o`.`doc_no`,
  `o`.`cell`,
  `o`.`start`,
  `o`.`end`,
  `o`.`start_byte`,
  `o`.`end_byte`,
  `o`.`kind`,
  `o`.`value_id`,
  `o`.`finder`,
  `o`.`score`,
  `o`.`section`,
  `o`.`entity_id`
FROM `occurrences` AS `o`
WHERE
  NOT EXISTS(
    SELECT
      1
    FROM `drops` AS `d`
    WHERE
      `d`.`doc_no` = `o`.`doc_no`
  )
  AND NOT EXISTS(
    SELECT
      1
    FROM `claimed_spans` AS `c`
    WHERE
      `c`.`doc_no` = `o`.`doc_no`
      AND `c`.`cell` = `o`.`cell`
      AND `c`.`start_byte` < `o`.`end_byte`
      AND `c`.`end_byte` > `o`.`start_byte`
  )
ORDER BY
  `o`.`doc_no` NULLS LAST,
  `o`.`cell` NULLS LAST,
  `o`.`start` NULLS LAST,
  `o`.`end` NULLS LAST,
  `o`.`kind` NULLS LAST,
  `o`.`value_id` NULLS LAST

-- remaining_values
SELECT DISTINCT
  `value_id`
FROM `remaining_occurrences`
ORDER BY
  `value_id` NULLS LAST

-- repeated_document_ids
SELECT
  `doc_id_hash`,
  COUNT(*) AS `documents`
FROM `document_ids`
GROUP BY
  `doc_id_hash`
HAVING
  COUNT(*) > 1
ORDER BY
  `documents` DESC,
  `doc_id_hash` NULLS LAST

-- repeated_items
WITH `distinct_items` AS (
  SELECT DISTINCT
    `group_no`,
    `item_id`
  FROM `items`
), `repeated_items` AS (
  SELECT
    `item_id`,
    ROW_NUMBER() OVER (ORDER BY `item_id` NULLS LAST) - 1 AS `item_no`
  FROM `distinct_items`
  GROUP BY
    `item_id`
  HAVING
    COUNT(*) > 1
)
SELECT
  `d`.`group_no`,
  `r`.`item_no`
FROM `distinct_items` AS `d`
JOIN `repeated_items` AS `r`
  ON `r`.`item_id` = `d`.`item_id`
ORDER BY
  `d`.`group_no` NULLS LAST,
  `r`.`item_no` NULLS LAST

-- value_counts
SELECT
  `value_id`,
  `kind`,
  CAST(SUM(`occurrences`) AS BIGINT) AS `occurrences`,
  CAST(SUM(`documents`) AS BIGINT) AS `documents`,
  MIN(`first_doc_no`) AS `first_doc_no`,
  MIN_BY(`first_cell`, `first_doc_no`) AS `first_cell`,
  MIN_BY(`first_start`, `first_doc_no`) AS `first_start`
FROM `partial_counts`
GROUP BY
  `value_id`,
  `kind`
ORDER BY
  `value_id` NULLS LAST,
  `kind` NULLS LAST

-- value_ngrams
SELECT DISTINCT
  `ngram`,
  `n`
FROM `direct_ngrams`
ORDER BY
  `n` NULLS LAST,
  `ngram` NULLS LAST

-- values_only_kept
WITH `found_counts` AS (
  SELECT
    `value_id`,
    COUNT(*) AS `times`
  FROM `occurrences`
  GROUP BY
    `value_id`
), `kept_counts` AS (
  SELECT
    `value_id`,
    COUNT(*) AS `times`
  FROM `kept`
  GROUP BY
    `value_id`
)
SELECT
  `k`.`value_id`
FROM `kept_counts` AS `k`
JOIN `found_counts` AS `f`
  ON `f`.`value_id` = `k`.`value_id`
WHERE
  `k`.`times` >= `f`.`times`
ORDER BY
  `k`.`value_id` NULLS LAST

-- word_user_counts
WITH `vocabulary` AS (
  SELECT
    `ngram_id`,
    MIN(`word`) AS `word`
  FROM `word_spellings`
  GROUP BY
    `ngram_id`
)
SELECT
  `v`.`word`,
  `v`.`ngram_id`,
  `d`.`users`
FROM `vocabulary` AS `v`
INNER JOIN `ngram_user_counts` AS `d`
  ON `d`.`ngram_id` = `v`.`ngram_id`
ORDER BY
  `v`.`word` NULLS LAST,
  `v`.`ngram_id` NULLS LAST
