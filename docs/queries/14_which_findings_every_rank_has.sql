-- SPDX-License-Identifier: Apache-2.0
-- Leaks and other findings that every process of a job has, by the innermost line of Python that is not a package's:
-- they come of the program, not of one rank's data.
SELECT f.job AS job, f.rule AS rule, l.file AS file, l.line AS line, count(DISTINCT f.process) AS processes,
  sum(f.bytes) AS bytes
FROM finding f
JOIN (SELECT job, count(*) AS processes FROM process GROUP BY job) p ON p.job = f.job
LEFT JOIN (
  SELECT stack, min(depth) AS depth FROM frame
  WHERE file LIKE '%.py' AND file NOT LIKE '%-packages/%' GROUP BY stack) s ON s.stack = f.stack
LEFT JOIN frame l ON l.stack = s.stack AND l.depth = s.depth
GROUP BY f.job, f.rule, l.file, l.line, p.processes
HAVING count(DISTINCT f.process) = p.processes
ORDER BY job, bytes DESC, rule, file, line;
