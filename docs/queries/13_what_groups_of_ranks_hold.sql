-- SPDX-License-Identifier: Apache-2.0
-- What the ranks of each group hold at their peaks, by category: ranks that share the data, a layer, a stage or experts.
SELECT job, group_of_ranks, kind, category, min(bytes) AS least_bytes, max(bytes) AS most_bytes,
  sum(bytes) AS total_bytes
FROM (
  SELECT p.job AS job, g.id AS group_of_ranks, g.kind AS kind, p.process AS process, a.category AS category,
    sum(a.bytes) AS bytes
  FROM rank_groups g
  JOIN peak p ON p.process = g.process
  JOIN allocation a ON a.process = p.process AND a.level = p.level AND a.device = p.device
    AND a.start_ns <= p.time_ns AND (a.end_ns IS NULL OR a.end_ns > p.time_ns)
  WHERE p.level = 'framework'
  GROUP BY 1, 2, 3, 4, 5) r
GROUP BY job, group_of_ranks, kind, category
ORDER BY job, group_of_ranks, total_bytes DESC;
