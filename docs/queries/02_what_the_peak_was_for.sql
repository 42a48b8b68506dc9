-- SPDX-License-Identifier: Apache-2.0
-- What the memory of each peak was for: parameters, gradients, activations, and so on.
SELECT p.process, p.device, p.level, a.category, sum(a.bytes) AS bytes, count(*) AS blocks
FROM peak p
JOIN allocation a ON a.process = p.process AND a.level = p.level AND coalesce(a.device, '') = coalesce(p.device, '')
  AND a.start_ns <= p.time_ns AND (a.end_ns IS NULL OR a.end_ns > p.time_ns)
GROUP BY p.process, p.device, p.level, a.category
ORDER BY bytes DESC;
