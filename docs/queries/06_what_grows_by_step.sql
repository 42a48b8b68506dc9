-- SPDX-License-Identifier: Apache-2.0
-- How much more is live at the end of a step than at the end of the one before.
SELECT process, number, peak_bytes, live_bytes_at_end,
  live_bytes_at_end - lag(live_bytes_at_end) OVER (PARTITION BY process ORDER BY number) AS growth
FROM step
ORDER BY process, number;
