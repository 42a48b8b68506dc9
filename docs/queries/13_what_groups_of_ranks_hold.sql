-- SPDX-License-Identifier: Apache-2.0
-- What the ranks of a group hold at their peaks, by category: 2 neighbours are one group here; write the size of yours.
SELECT job, group_of_ranks, category, min(bytes) AS least_bytes, max(bytes) AS most_bytes, sum(bytes) AS total_bytes
FROM (
  SELECT p.job AS job, p.rank AS rank, p.rank - p.rank % 2 AS group_of_ranks, a.category AS category,
    sum(a.bytes) AS bytes
  FROM peak p
  JOIN allocation a ON a.process = p.process AND a.level = p.level AND a.device = p.device
    AND a.start_ns <= p.time_ns AND (a.end_ns IS NULL OR a.end_ns > p.time_ns)
  WHERE p.level = 'framework' AND p.rank IS NOT NULL
  GROUP BY 1, 2, 3, 4) r
GROUP BY job, group_of_ranks, category
ORDER BY job, group_of_ranks, total_bytes DESC;
