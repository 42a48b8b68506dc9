-- SPDX-License-Identifier: Apache-2.0
-- Which rank has the highest peak, and how far each is from the lowest of its level.
SELECT r.rank AS rank, p.process AS process, p.device AS device, p.level AS level, p.bytes AS bytes,
  p.bytes - min(p.bytes) OVER (PARTITION BY p.level) AS more_than_lowest
FROM peak p
JOIN process r ON r.id = p.process
ORDER BY p.level, p.bytes DESC;
