-- SPDX-License-Identifier: Apache-2.0
-- The highest peak of each rank and the host it ran on, and how far the rank is below the highest of its job.
SELECT job, host, rank, level, max(bytes) AS peak_bytes,
  max(max(bytes)) OVER (PARTITION BY job, level) - max(bytes) AS less_than_highest
FROM peak
WHERE device IS NOT NULL
GROUP BY job, host, rank, level
ORDER BY job, level, peak_bytes DESC, rank;
