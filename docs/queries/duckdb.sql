-- SPDX-License-Identifier: Apache-2.0
-- The tables of `gpumemtrace export --to parquet` for DuckDB; run in the folder that was written:
--   duckdb -init .../docs/queries/duckdb.sql
CREATE VIEW meta AS FROM read_parquet('meta/*.parquet');
CREATE VIEW process AS FROM read_parquet('process/*.parquet');
CREATE VIEW device AS FROM read_parquet('device/*.parquet');
CREATE VIEW frame AS FROM read_parquet('frame/*.parquet');
CREATE VIEW device_of_process AS FROM read_parquet('device_of_process/*/*.parquet', hive_partitioning = true);
CREATE VIEW allocation AS FROM read_parquet('allocation/*/*.parquet', hive_partitioning = true);
CREATE VIEW peak AS FROM read_parquet('peak/*/*.parquet', hive_partitioning = true);
CREATE VIEW card_peaks AS FROM read_parquet('card_peaks/*.parquet');
CREATE VIEW card_peak_parts AS FROM read_parquet('card_peak_parts/*/*.parquet', hive_partitioning = true);
CREATE VIEW step AS FROM read_parquet('step/*/*.parquet', hive_partitioning = true);
CREATE VIEW range AS FROM read_parquet('range/*/*.parquet', hive_partitioning = true);
CREATE VIEW finding AS FROM read_parquet('finding/*/*.parquet', hive_partitioning = true);
