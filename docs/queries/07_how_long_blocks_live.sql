-- SPDX-License-Identifier: Apache-2.0
-- How long blocks live (2^20 and 2^27 ns): many that live briefly are work for the allocator.
SELECT process, device, level,
  CASE WHEN end_ns IS NULL THEN 'to the end'
    WHEN end_ns - start_ns < 1048576 THEN 'below 1.05 ms'
    WHEN end_ns - start_ns < 134217728 THEN 'below 134 ms'
    ELSE '134 ms or more' END AS life,
  count(*) AS blocks, sum(bytes) AS bytes
FROM allocation
GROUP BY process, device, level,
  CASE WHEN end_ns IS NULL THEN 'to the end'
    WHEN end_ns - start_ns < 1048576 THEN 'below 1.05 ms'
    WHEN end_ns - start_ns < 134217728 THEN 'below 134 ms'
    ELSE '134 ms or more' END
ORDER BY process, device, level, blocks DESC;
