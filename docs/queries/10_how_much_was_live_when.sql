-- SPDX-License-Identifier: Apache-2.0
-- How much was live at each moment; the highest value is the peak.
SELECT process, device, level, time_ns,
  sum(bytes) OVER (PARTITION BY process, device, level ORDER BY time_ns) AS live_bytes
FROM (
  SELECT process, device, level, time_ns, sum(bytes) AS bytes
  FROM (
    SELECT process, device, level, start_ns AS time_ns, bytes FROM allocation
    UNION ALL
    SELECT process, device, level, end_ns, -bytes FROM allocation WHERE end_ns IS NOT NULL) c
  GROUP BY process, device, level, time_ns) m
ORDER BY process, device, level, time_ns;
