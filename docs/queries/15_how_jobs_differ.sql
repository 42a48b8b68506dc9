-- SPDX-License-Identifier: Apache-2.0
-- What the fullest rank of each job held at its peak, by category, and how much more that is than in the leanest job.
SELECT job, level, category, max(bytes) AS most_bytes,
  max(bytes) - min(max(bytes)) OVER (PARTITION BY level, category) AS more_than_leanest
FROM (
  SELECT p.job AS job, p.process AS process, p.level AS level, a.category AS category, sum(a.bytes) AS bytes
  FROM peak p
  JOIN allocation a ON a.process = p.process AND a.level = p.level AND a.device = p.device
    AND a.start_ns <= p.time_ns AND (a.end_ns IS NULL OR a.end_ns > p.time_ns)
  GROUP BY 1, 2, 3, 4) h
GROUP BY job, level, category
ORDER BY level, more_than_leanest DESC, category, job;
