-- SPDX-License-Identifier: Apache-2.0
-- The tables of `gpumemtrace export --format parquet` for ClickHouse; run in the folder that was written.
-- The rank is a column of the files. ClickHouse would read it off their paths, and does not know the name that stands for NULL.
SET use_hive_partitioning = 0;
SET schema_inference_mode = 'union';
CREATE VIEW meta AS SELECT * FROM file('meta/*.parquet', Parquet);
CREATE VIEW process AS SELECT * FROM file('process/*.parquet', Parquet);
CREATE VIEW device AS SELECT * FROM file('device/*.parquet', Parquet);
CREATE VIEW frame AS SELECT * FROM file('frame/*.parquet', Parquet);
CREATE VIEW card_peaks AS SELECT * FROM file('card_peaks/*.parquet', Parquet);
CREATE VIEW device_of_process AS SELECT * FROM file('device_of_process/*/*.parquet', Parquet);
CREATE VIEW allocation AS SELECT * FROM file('allocation/*/*.parquet', Parquet);
CREATE VIEW peak AS SELECT * FROM file('peak/*/*.parquet', Parquet);
CREATE VIEW card_peak_parts AS SELECT * FROM file('card_peak_parts/*/*.parquet', Parquet);
CREATE VIEW rank_groups AS SELECT * FROM file('rank_groups/*/*.parquet', Parquet);
CREATE VIEW step AS SELECT * FROM file('step/*/*.parquet', Parquet);
CREATE VIEW range AS SELECT * FROM file('range/*/*.parquet', Parquet);
CREATE VIEW finding AS SELECT * FROM file('finding/*/*.parquet', Parquet);
