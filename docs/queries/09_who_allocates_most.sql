-- SPDX-License-Identifier: Apache-2.0
-- Which functions allocate most over the whole run, by the innermost frame that has a name.
SELECT a.process, a.device, a.level, a.kind, f.function, f.file, f.line, sum(a.bytes) AS bytes, count(*) AS allocations
FROM allocation a
LEFT JOIN (SELECT stack, min(depth) AS depth FROM frame WHERE function IS NOT NULL GROUP BY stack) s
  ON s.stack = a.stack
LEFT JOIN frame f ON f.stack = s.stack AND f.depth = s.depth
GROUP BY a.process, a.device, a.level, a.kind, f.function, f.file, f.line
ORDER BY bytes DESC;
