-- SPDX-License-Identifier: Apache-2.0
-- Which layer of the model held the blocks of the framework at its peak.
SELECT p.process, p.device, a.module, sum(a.bytes) AS bytes, count(*) AS blocks
FROM peak p
JOIN allocation a ON a.process = p.process AND a.level = p.level AND a.device = p.device
  AND a.start_ns <= p.time_ns AND (a.end_ns IS NULL OR a.end_ns > p.time_ns)
WHERE p.level = 'framework'
GROUP BY p.process, p.device, a.module
ORDER BY bytes DESC;
