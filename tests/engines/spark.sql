-- blacklist_degrees
WITH `summed` AS (
  SELECT
    `gram`,
    COUNT(*) AS `pairs`,
    COUNT(`user_hash`) AS `named`,
    MIN(`user_hash`) AS `low`,
    MAX(`user_hash`) AS `high`
  FROM `seen`
  GROUP BY
    `gram`
), `several` AS (
  SELECT
    `gram`,
    COUNT(*) AS `users`
  FROM (
    SELECT DISTINCT
      `gram`,
      `user_hash`
    FROM `seen`
    WHERE
      :k > 2
  ) AS `distinct_pairs`
  GROUP BY
    `gram`
)
SELECT
  `a`.`gram`,
  CASE
    WHEN `a`.`pairs` > `a`.`named`
    THEN CAST(:k AS BIGINT)
    WHEN `a`.`low` = `a`.`high`
    THEN 1
    WHEN `b`.`users` < :k
    THEN `b`.`users`
    ELSE CAST(:k AS BIGINT)
  END AS `users`
FROM `summed` AS `a`
LEFT JOIN `several` AS `b`
  ON `b`.`gram` = `a`.`gram`
ORDER BY
  `a`.`gram` NULLS LAST

-- blacklist_direct
SELECT DISTINCT
  `ngram`,
  `n`
FROM `direct`
ORDER BY
  `n` NULLS LAST,
  `ngram` NULLS LAST

-- blacklist_words
WITH `vocabulary` AS (
  SELECT
    `gram`,
    MIN(`word`) AS `word`
  FROM `spelled`
  GROUP BY
    `gram`
)
SELECT
  `v`.`word`,
  `v`.`gram`,
  `d`.`users`
FROM `vocabulary` AS `v`
INNER JOIN `degrees` AS `d`
  ON `d`.`gram` = `v`.`gram`
ORDER BY
  `v`.`word` NULLS LAST,
  `v`.`gram` NULLS LAST

-- claimed
SELECT
  `o`.`doc_no`,
  `o`.`cell`,
  `o`.`start_byte`,
  `o`.`end_byte`
FROM `occurrences_left` AS `o`
WHERE
  `o`.`kind` IN (
    SELECT
      `kind`
    FROM `chosen_kinds`
  )
  AND NOT EXISTS(
    SELECT
      1
    FROM `firsts` AS `f`
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

-- count_histogram
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

-- document_values
SELECT DISTINCT
  `doc_no` AS `group_no`,
  `value_id` AS `thing_id`
FROM `occurrences_left`
WHERE
  `kind` IN (
    SELECT
      `kind`
    FROM `chosen_kinds`
  )
ORDER BY
  `group_no` NULLS LAST,
  `thing_id` NULLS LAST

-- entities
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
WITH `firsts` AS (
  SELECT
    `doc_no`,
    MIN(`doc_no`) OVER (PARTITION BY `high`, `low`) AS `kept_doc_no`
  FROM `digests`
)
SELECT
  `doc_no`,
  MIN(`kept_doc_no`) AS `kept_doc_no`
FROM `firsts`
GROUP BY
  `doc_no`
HAVING
  MIN(`kept_doc_no`) < `doc_no`
ORDER BY
  `doc_no` NULLS LAST

-- fates
WITH `summed` AS (
  SELECT
    `kind`,
    `fate`,
    `section`,
    CAST(SUM(`occurrences`) AS BIGINT) AS `occurrences`
  FROM `standing`
  WHERE
    `standing` BETWEEN :low AND :high
  GROUP BY
    `kind`,
    `fate`,
    `section`,
    `standing`
)
SELECT
  `kind`,
  `fate`,
  `section`,
  `occurrences`,
  COUNT(*) AS `distinct_values`
FROM `summed`
GROUP BY
  `kind`,
  `fate`,
  `section`,
  `occurrences`
ORDER BY
  `kind` NULLS LAST,
  `fate` NULLS LAST,
  `section`,
  `occurrences` DESC

-- firsts
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
    ) AS `nth`
  FROM `occurrences_left`
  WHERE
    `kind` IN (
      SELECT
        `kind`
      FROM `chosen_kinds`
    )
) AS `numbered`
WHERE
  `nth` <= :keep
ORDER BY
  `doc_no` NULLS LAST,
  `cell` NULLS LAST,
  `start` NULLS LAST,
  `value_id` NULLS LAST

-- firsts_from_counts
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

-- groups_that_share
WITH `shared` AS (
  SELECT
    `thing_id`
  FROM `things`
  GROUP BY
    `thing_id`
  HAVING
    COUNT(*) > 1
)
SELECT DISTINCT
  `t`.`group_no` AS `doc_no`
FROM `things` AS `t`
JOIN `shared` AS `s`
  ON `s`.`thing_id` = `t`.`thing_id`
ORDER BY
  `doc_no` NULLS LAST

-- header_removals
WITH `numbered` AS (
  SELECT
    `u`.`doc_no`,
    `u`.`cell`,
    `u`.`start`,
    `u`.`thing_id`,
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
    ) - 1 AS `nth`
  FROM `units` AS `u`
  WHERE
    EXISTS(
      SELECT
        1
      FROM `gone` AS `g`
      WHERE
        `g`.`group_no` = `u`.`group_no`
    )
), `counted` AS (
  SELECT
    `doc_no`,
    `cell`,
    `line_start`,
    MAX(`nth`) + 1 AS `goes`
  FROM `numbered`
  GROUP BY
    `doc_no`,
    `cell`,
    `line_start`
)
SELECT
  `n`.`doc_no`,
  `n`.`cell`,
  `n`.`start`,
  `n`.`thing_id` AS `value_id`,
  CASE
    WHEN `c`.`goes` = `n`.`entry_count`
    THEN `n`.`line_start`
    WHEN `n`.`nth` = `n`.`entry_no`
    THEN `n`.`entry_start`
    ELSE `n`.`previous_end`
  END AS `start_byte`,
  CASE
    WHEN `c`.`goes` = `n`.`entry_count`
    THEN `n`.`line_end`
    WHEN `n`.`nth` = `n`.`entry_no`
    THEN `n`.`next_start`
    ELSE `n`.`entry_end`
  END AS `end_byte`,
  `n`.`field`,
  CASE WHEN `c`.`goes` = `n`.`entry_count` THEN 1 ELSE 0 END AS `whole_line`
FROM `numbered` AS `n`
JOIN `counted` AS `c`
  ON `c`.`doc_no` = `n`.`doc_no`
  AND `c`.`cell` = `n`.`cell`
  AND `c`.`line_start` = `n`.`line_start`
ORDER BY
  `n`.`doc_no` NULLS LAST,
  `n`.`cell` NULLS LAST,
  `n`.`start` NULLS LAST,
  `n`.`thing_id` NULLS LAST

-- header_units
SELECT
  DENSE_RANK() OVER (
    ORDER BY `p`.`doc_no` NULLS LAST, `p`.`cell` NULLS LAST, `p`.`unit_start` NULLS LAST
  ) - 1 AS `group_no`,
  `p`.`value_id` AS `thing_id`,
  `p`.`doc_no`,
  `p`.`cell`,
  `p`.`start`,
  `p`.`field`,
  `p`.`line_start`,
  `p`.`line_end`,
  `p`.`entry_start`,
  `p`.`entry_end`,
  `p`.`previous_end`,
  `p`.`next_start`,
  `p`.`entry_no`,
  `p`.`entry_count`
FROM `places` AS `p`
WHERE
  EXISTS(
    SELECT
      1
    FROM `occurrences_left` AS `o`
    WHERE
      `o`.`doc_no` = `p`.`doc_no`
      AND `o`.`cell` = `p`.`cell`
      AND `o`.`start` = `p`.`start`
      AND `o`.`value_id` = `p`.`value_id`
  )
ORDER BY
  `group_no` NULLS LAST,
  `p`.`start` NULLS LAST,
  `thing_id` NULLS LAST

-- kinds_left
WITH `counted` AS (
  SELECT
    `kind`,
    COUNT(*) AS `occurrences`
  FROM `occurrences_left`
  GROUP BY
    `kind`
), `held_values` AS (
  SELECT
    `kind`,
    COUNT(*) AS `distinct_values`
  FROM (
    SELECT DISTINCT
      `kind`,
      `value_id`
    FROM `occurrences_left`
  ) AS `v`
  GROUP BY
    `kind`
), `held` AS (
  SELECT
    `kind`,
    COUNT(*) AS `documents`
  FROM (
    SELECT DISTINCT
      `kind`,
      `doc_no`
    FROM `occurrences_left`
  ) AS `d`
  GROUP BY
    `kind`
)
SELECT
  `c`.`kind`,
  `c`.`occurrences`,
  `v`.`distinct_values`,
  `h`.`documents`
FROM `counted` AS `c`
JOIN `held_values` AS `v`
  ON `v`.`kind` = `c`.`kind`
JOIN `held` AS `h`
  ON `h`.`kind` = `c`.`kind`
ORDER BY
  `c`.`kind` NULLS LAST

-- known_values
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

-- ledger_summary
WITH `spent` AS (
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
  ROUND(MAX(`epsilon`), 4) AS `epsilon_of_worst`
FROM `spent`
GROUP BY
  `part`,
  `privacy_unit`
ORDER BY
  `part` NULLS LAST,
  `privacy_unit` NULLS LAST

-- left_after_claims
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
    FROM `claimed` AS `c`
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
WITH `sizes` AS (
  SELECT
    `doc_no`,
    COUNT(*) AS `size`
  FROM `runs`
  GROUP BY
    `doc_no`
), `shared` AS (
  SELECT
    `p`.`doc_no`,
    `p`.`earlier_doc_no`,
    COUNT(*) AS `common`
  FROM `pairs` AS `p`
  JOIN `runs` AS `a`
    ON `a`.`doc_no` = `p`.`earlier_doc_no`
  JOIN `runs` AS `b`
    ON `b`.`doc_no` = `p`.`doc_no` AND `b`.`run` = `a`.`run`
  GROUP BY
    `p`.`doc_no`,
    `p`.`earlier_doc_no`
)
SELECT
  `s`.`doc_no`,
  `s`.`earlier_doc_no`
FROM `shared` AS `s`
JOIN `sizes` AS `one`
  ON `one`.`doc_no` = `s`.`doc_no`
JOIN `sizes` AS `other`
  ON `other`.`doc_no` = `s`.`earlier_doc_no`
WHERE
  `s`.`common` >= :threshold * (
    `one`.`size` + `other`.`size` - `s`.`common`
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
), `steps` AS (
  SELECT
    8 * `a`.`digit` + `b`.`digit` + 1 AS `step`
  FROM `digits` AS `a`
  CROSS JOIN `digits` AS `b`
  WHERE
    8 * `a`.`digit` + `b`.`digit` < :near
), `alike` AS (
  SELECT
    `doc_no`,
    MIN(`doc_no`) OVER (PARTITION BY `hash`) AS `first_doc_no`
  FROM `bands`
  WHERE
    `band` = -1
), `chosen` AS (
  SELECT
    `b`.`band`,
    `b`.`hash`,
    `b`.`doc_no`
  FROM `bands` AS `b`
  JOIN `alike` AS `a`
    ON `a`.`doc_no` = `b`.`doc_no`
  WHERE
    `b`.`band` >= 0 AND `a`.`first_doc_no` = `b`.`doc_no`
), `crowded` AS (
  SELECT
    `band`,
    `hash`
  FROM `chosen`
  GROUP BY
    `band`,
    `hash`
  HAVING
    COUNT(*) > 1
), `bucket` AS (
  SELECT
    `c`.`band`,
    `c`.`hash`,
    `c`.`doc_no`,
    ROW_NUMBER() OVER (PARTITION BY `c`.`band`, `c`.`hash` ORDER BY `c`.`doc_no` NULLS LAST) AS `place`
  FROM `chosen` AS `c`
  JOIN `crowded` AS `w`
    ON `w`.`band` = `c`.`band` AND `w`.`hash` = `c`.`hash`
), `met` AS (
  SELECT
    `doc_no`,
    `first_doc_no` AS `earlier_doc_no`
  FROM `alike`
  WHERE
    `first_doc_no` < `doc_no`
  UNION
  SELECT
    `later`.`doc_no`,
    `earlier`.`doc_no` AS `earlier_doc_no`
  FROM `bucket` AS `later`
  JOIN `steps` AS `s`
    ON `s`.`step` < `later`.`place`
  JOIN `bucket` AS `earlier`
    ON `earlier`.`band` = `later`.`band`
    AND `earlier`.`hash` = `later`.`hash`
    AND `earlier`.`place` = `later`.`place` - `s`.`step`
  UNION
  SELECT
    `later`.`doc_no`,
    `earlier`.`doc_no` AS `earlier_doc_no`
  FROM `bucket` AS `later`
  JOIN `bucket` AS `earlier`
    ON `earlier`.`band` = `later`.`band` AND `earlier`.`hash` = `later`.`hash`
  WHERE
    `earlier`.`place` = 1 AND `later`.`place` > 1
)
SELECT
  `doc_no`,
  `earlier_doc_no`
FROM `met`
ORDER BY
  `doc_no` NULLS LAST,
  `earlier_doc_no` NULLS LAST

-- removed_by_field
WITH `spans` AS (
  SELECT
    `field`,
    `doc_no`,
    `cell`,
    `start_byte`,
    MAX(`whole_line`) AS `whole_line`,
    COUNT(*) AS `occurrences`
  FROM `goes`
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
FROM `spans`
GROUP BY
  `field`
ORDER BY
  `occurrences` DESC,
  `field` NULLS LAST

-- repeated_ids
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

-- repeated_things
WITH `distinct_things` AS (
  SELECT DISTINCT
    `group_no`,
    `thing_id`
  FROM `things`
), `repeated` AS (
  SELECT
    `thing_id`,
    ROW_NUMBER() OVER (ORDER BY `thing_id` NULLS LAST) - 1 AS `thing`
  FROM `distinct_things`
  GROUP BY
    `thing_id`
  HAVING
    COUNT(*) > 1
)
SELECT
  `d`.`group_no`,
  `r`.`thing`
FROM `distinct_things` AS `d`
JOIN `repeated` AS `r`
  ON `r`.`thing_id` = `d`.`thing_id`
ORDER BY
  `d`.`group_no` NULLS LAST,
  `r`.`thing` NULLS LAST

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

-- values_left
SELECT DISTINCT
  `value_id`
FROM `occurrences_left`
ORDER BY
  `value_id` NULLS LAST
