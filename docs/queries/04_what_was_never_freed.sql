-- SPDX-License-Identifier: Apache-2.0
-- What was still there at the end, by owner.
SELECT process, device, level, owner, sum(bytes) AS bytes, count(*) AS blocks
FROM allocation
WHERE end_ns IS NULL
GROUP BY process, device, level, owner
ORDER BY bytes DESC;
