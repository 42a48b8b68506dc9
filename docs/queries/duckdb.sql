-- SPDX-License-Identifier: Apache-2.0
-- The tables of `gpumemtrace export --format parquet` for DuckDB; run in the folder that was written:
--   duckdb -init .../docs/queries/duckdb.sql
CREATE VIEW meta AS FROM read_parquet('meta/*.parquet', union_by_name = true);
CREATE VIEW process AS FROM read_parquet('process/*.parquet', union_by_name = true);
CREATE VIEW device AS FROM read_parquet('device/*.parquet', union_by_name = true);
CREATE VIEW frame AS FROM read_parquet('frame/*.parquet', union_by_name = true);
CREATE VIEW device_of_process AS FROM read_parquet('device_of_process/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
CREATE VIEW allocation AS FROM read_parquet('allocation/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
CREATE VIEW peak AS FROM read_parquet('peak/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
CREATE VIEW card_peaks AS FROM read_parquet('card_peaks/*.parquet', union_by_name = true);
CREATE VIEW card_peak_parts AS FROM read_parquet('card_peak_parts/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
CREATE VIEW rank_groups AS FROM read_parquet('rank_groups/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
CREATE VIEW step AS FROM read_parquet('step/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
CREATE VIEW range AS FROM read_parquet('range/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
CREATE VIEW finding AS FROM read_parquet('finding/*/*.parquet', union_by_name = true, hive_types = {rank: BIGINT});
