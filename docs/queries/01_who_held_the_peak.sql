-- SPDX-License-Identifier: Apache-2.0
-- Who held the memory at each peak: by owner and by the innermost line of Python that is not a package's.
SELECT p.process AS process, p.device AS device, p.level AS level, a.owner AS owner, f.file AS file, f.line AS line,
  sum(a.bytes) AS bytes, count(*) AS blocks
FROM peak p
JOIN allocation a ON a.process = p.process AND a.level = p.level AND coalesce(a.device, '') = coalesce(p.device, '')
  AND a.start_ns <= p.time_ns AND (a.end_ns IS NULL OR a.end_ns > p.time_ns)
LEFT JOIN (
  SELECT stack, min(depth) AS depth FROM frame
  WHERE file LIKE '%.py' AND file NOT LIKE '%-packages/%' GROUP BY stack) s ON s.stack = a.stack
LEFT JOIN frame f ON f.stack = s.stack AND f.depth = s.depth
GROUP BY p.process, p.device, p.level, a.owner, f.file, f.line
ORDER BY bytes DESC;
