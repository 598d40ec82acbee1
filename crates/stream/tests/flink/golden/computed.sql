SET 'pipeline.name' = 'netalytics 7';

SET 'table.local-time-zone' = 'UTC';

SET 'execution.runtime-mode' = 'streaming';

SET 'execution.checkpointing.mode' = 'EXACTLY_ONCE';

SET 'execution.checkpointing.interval' = '1000 ms';

SET 'restart-strategy.type' = 'fixed-delay';

SET 'restart-strategy.fixed-delay.attempts' = '2147483647';

SET 'restart-strategy.fixed-delay.delay' = '1 s';

SET 'parallelism.default' = '2';

CREATE TEMPORARY TABLE `tuples_0` (
  `wm_ns` BIGINT,
  `replicate` BIGINT,
  `id` BIGINT,
  `ts` BIGINT,
  `client_ip` BYTES,
  `client_port` BIGINT,
  `server_ip` BYTES,
  `server_port` BIGINT,
  `transport` STRING,
  `quality` STRING,
  `client_guessed` BOOLEAN,
  `ts_end` BIGINT,
  `community_id` STRING,
  `sample_rate` DOUBLE,
  `tunnel` STRING,
  `tunnel_id` BIGINT,
  `tunnel_src` BYTES,
  `tunnel_dst` BYTES,
  `vlan_id` BIGINT,
  `proxied_client_ip` BYTES,
  `proxied_client_port` BIGINT,
  `proxied_server_ip` BYTES,
  `proxied_server_port` BIGINT,
  `encrypted` BOOLEAN,
  `tls_sni` STRING,
  `tls_alpn` STRING,
  `path` STRING,
  `n_ns` BIGINT,
  `delta` BIGINT,
  `ratio` DOUBLE,
  `ok` BOOLEAN,
  `_et` AS TO_TIMESTAMP_LTZ(CASE WHEN COALESCE(`ts_end`, `wm_ns`) < 0 THEN (COALESCE(`ts_end`, `wm_ns`) + 1) / 1000000 - 1 ELSE COALESCE(`ts_end`, `wm_ns`) / 1000000 END, 3),
  WATERMARK FOR `_et` AS TO_TIMESTAMP_LTZ(CASE WHEN `wm_ns` < 0 THEN (`wm_ns` + 1) / 1000000 - 1 ELSE `wm_ns` / 1000000 END - 1, 3)
) WITH (
  'connector' = 'kafka',
  'topic' = 'netalytics.t.v1',
  'properties.bootstrap.servers' = 'kafka-1:9092,kafka-2:9092',
  'format' = 'avro',
  'properties.security.protocol' = 'SSL',
  'properties.group.id' = 'netalytics-7',
  'scan.startup.mode' = 'timestamp',
  'scan.startup.timestamp-millis' = '1700000000000',
  'scan.topic-partition-discovery.interval' = '2000 ms',
  'scan.watermark.idle-timeout' = '5000 ms'
);

CREATE TEMPORARY VIEW `input_0` AS
SELECT
  `id`,
  `ts_end`,
  `client_ip`,
  `path`,
  `n_ns`,
  `delta`,
  `ratio`,
  `ok`,
  `ts_end` AS `_end_ns`,
  CASE WHEN `ts_end` < 0 THEN (`ts_end` + 1) / 1000000 - 1 ELSE `ts_end` / 1000000 END AS `_ms`,
  COALESCE(`replicate`, 0) AS `_replicate`,
  `_et`
FROM `tuples_0`
WHERE `ts_end` IS NOT NULL AND NOT (`ok` = TRUE);

CREATE TEMPORARY VIEW `computed_0` AS
SELECT
  *,
  TRY_CAST(CAST(CAST((CASE WHEN `n_ns` >= 0 THEN `n_ns` END / CAST(2 AS BIGINT)) AS DECIMAL(19, 0)) + CAST(`delta` AS DECIMAL(19, 0)) AS STRING) AS BIGINT) AS `sum`
FROM `input_0`;

CREATE TEMPORARY VIEW `computed_1` AS
SELECT
  *,
  CASE WHEN ABS((CAST(`sum` AS DOUBLE) / NULLIF(CAST(`delta` AS DOUBLE), CAST(0 AS DOUBLE)))) <= CAST('1.7976931348623157e308' AS DOUBLE) THEN (CAST(`sum` AS DOUBLE) / NULLIF(CAST(`delta` AS DOUBLE), CAST(0 AS DOUBLE))) END AS `ratio#30`
FROM `computed_0`;

CREATE TEMPORARY VIEW `kept` AS
SELECT * FROM `computed_1`
WHERE (`path` IS NULL OR `ratio#30` >= CAST('5e-1' AS DOUBLE));

CREATE TEMPORARY VIEW `rows_0` AS
SELECT
  `_et`,
  `_ms` - MOD(`_ms`, CAST(10000 AS BIGINT)) - CASE WHEN MOD(`_ms`, CAST(10000 AS BIGINT)) < 0 THEN CAST(10000 AS BIGINT) ELSE 0 END AS `et_ms`,
  CAST(0 AS BIGINT) AS `pane`,
  `ok` AS `k0`,
  CAST('1e0' AS DOUBLE) AS `rate`,
  CAST(0 AS BIGINT) AS `replicate`,
  CAST(NULL AS BIGINT) AS `slot`,
  CAST(NULL AS BIGINT) AS `at`,
  CAST(NULL AS BIGINT) AS `bits`,
  CAST(NULL AS BYTES) AS `whole`,
  CAST(1 AS BIGINT) AS `tuples`,
  `_end_ns` AS `first_ns`,
  `_end_ns` AS `last_ns`,
  CAST(NULL AS BIGINT) AS `n`,
  CAST(1 AS BIGINT) AS `a0_n`,
  CASE WHEN `sum` IS NOT NULL THEN CAST(1 AS BIGINT) END AS `a1_n`,
  CAST(`sum` AS DECIMAL(38, 0)) AS `a1_sum`,
  `sum` AS `a2`
FROM `kept`;

CREATE TEMPORARY VIEW `panes_0` AS
SELECT
  `window_start` AS `_start`,
  `window_end` AS `_end`,
  `window_time` AS `_time`,
  `et_ms`,
  `pane`,
  `k0`,
  `rate`,
  `replicate`,
  `slot`,
  `at`,
  `bits`,
  `whole`,
  SUM(`tuples`) AS `tuples`,
  MIN(`first_ns`) AS `first_ns`,
  MAX(`last_ns`) AS `last_ns`,
  SUM(`n`) AS `n`,
  SUM(`a0_n`) AS `a0_n`,
  SUM(`a1_n`) AS `a1_n`,
  SUM(`a1_sum`) AS `a1_sum`,
  MAX(`a2`) AS `a2`
FROM TABLE(TUMBLE(TABLE `rows_0`, DESCRIPTOR(`_et`), INTERVAL '0 00:00:10.000' DAY TO SECOND(3)))
GROUP BY `window_start`, `window_end`, `window_time`, `et_ms`, `pane`, `k0`, `rate`, `replicate`, `slot`, `at`, `bits`, `whole`;

CREATE TEMPORARY VIEW `marks_0` AS
SELECT MIN(`et_ms`) AS `et_ms`, COUNT(*) AS `mark`
FROM TABLE(TUMBLE(TABLE `panes_0`, DESCRIPTOR(`_time`), INTERVAL '0 00:00:10.000' DAY TO SECOND(3)))
GROUP BY `window_start`, `window_end`;

CREATE TEMPORARY TABLE `merged_0` (
  `et_ms` BIGINT,
  `pane` BIGINT,
  `k0` BOOLEAN,
  `rate` DOUBLE,
  `replicate` BIGINT,
  `slot` BIGINT,
  `at` BIGINT,
  `bits` BIGINT,
  `whole` BYTES,
  `tuples` BIGINT,
  `first_ns` BIGINT,
  `last_ns` BIGINT,
  `n` BIGINT,
  `a0_n` BIGINT,
  `a1_n` BIGINT,
  `a1_sum` DECIMAL(38, 0),
  `a2` BIGINT,
  `mark` BIGINT
) WITH (
  'connector' = 'kafka',
  'topic' = 'netalytics.merged.v1.7',
  'properties.bootstrap.servers' = 'kafka-1:9092,kafka-2:9092',
  'format' = 'avro',
  'properties.security.protocol' = 'SSL',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = 'netalytics-7-0',
  'sink.parallelism' = '1',
  'properties.max.request.size' = '8388608',
  'properties.transaction.timeout.ms' = '60000'
);

EXECUTE STATEMENT SET
BEGIN
INSERT INTO `merged_0`
SELECT `et_ms`, `pane`, `k0`, `rate`, `replicate`, `slot`, `at`, `bits`, `whole`, `tuples`, `first_ns`, `last_ns`, `n`, `a0_n`, `a1_n`, `a1_sum`, `a2`, CAST(NULL AS BIGINT) FROM `panes_0`
UNION ALL
SELECT `et_ms`, CAST(NULL AS BIGINT), CAST(NULL AS BOOLEAN), CAST(NULL AS DOUBLE), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BYTES), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS DECIMAL(38, 0)), CAST(NULL AS BIGINT), `mark` FROM `marks_0`;
END;

