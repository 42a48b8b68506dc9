-- SPDX-License-Identifier: Apache-2.0
-- How many blocks of which size were allocated, and how many bytes that was in all.
SELECT process, device, level,
  CASE WHEN bytes < 1048576 THEN 'below 1 MiB'
    WHEN bytes < 16777216 THEN 'below 16 MiB'
    WHEN bytes < 268435456 THEN 'below 256 MiB'
    ELSE '256 MiB or more' END AS size,
  count(*) AS blocks, sum(bytes) AS total_bytes
FROM allocation
GROUP BY process, device, level,
  CASE WHEN bytes < 1048576 THEN 'below 1 MiB'
    WHEN bytes < 16777216 THEN 'below 16 MiB'
    WHEN bytes < 268435456 THEN 'below 256 MiB'
    ELSE '256 MiB or more' END
ORDER BY process, device, level, total_bytes DESC;
