-- SPDX-License-Identifier: Apache-2.0
-- How much more a rank holds at its peak than the average rank of its job, by owner and by the innermost line of Python
-- that is not a package's.
SELECT h.job AS job, h.rank AS rank, h.level AS level, h.owner AS owner, h.file AS file, h.line AS line, h.bytes AS bytes,
  h.bytes - sum(h.bytes) OVER (PARTITION BY h.job, h.level, h.owner, h.file, h.line) / r.ranks AS more_than_average
FROM (
  SELECT p.job AS job, p.rank AS rank, p.level AS level, a.owner AS owner, f.file AS file, f.line AS line,
    sum(a.bytes) AS bytes
  FROM peak p
  JOIN allocation a ON a.process = p.process AND a.level = p.level AND a.device = p.device
    AND a.start_ns <= p.time_ns AND (a.end_ns IS NULL OR a.end_ns > p.time_ns)
  LEFT JOIN (
    SELECT stack, min(depth) AS depth FROM frame
    WHERE file LIKE '%.py' AND file NOT LIKE '%-packages/%' GROUP BY stack) s ON s.stack = a.stack
  LEFT JOIN frame f ON f.stack = s.stack AND f.depth = s.depth
  GROUP BY 1, 2, 3, 4, 5, 6) h
JOIN (SELECT job, count(DISTINCT rank) AS ranks FROM process WHERE rank IS NOT NULL GROUP BY job) r ON r.job = h.job
ORDER BY more_than_average DESC, job, rank, level, owner, file, line;
