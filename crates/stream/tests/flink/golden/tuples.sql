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
WHERE `ts_end` IS NOT NULL;

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

CREATE TEMPORARY VIEW `marks_0` AS
SELECT MIN(`_ms` - MOD(`_ms`, CAST(1000 AS BIGINT)) - CASE WHEN MOD(`_ms`, CAST(1000 AS BIGINT)) < 0 THEN CAST(1000 AS BIGINT) ELSE 0 END) AS `_second_ms`, COUNT(*) AS `_mark`
FROM TABLE(TUMBLE(TABLE `computed_1`, DESCRIPTOR(`_et`), INTERVAL '0 00:00:01.000' DAY TO SECOND(3)))
GROUP BY `window_start`, `window_end`;

CREATE TEMPORARY TABLE `merged_0` (
  `_second_ms` BIGINT,
  `id` BIGINT,
  `ts_end` BIGINT,
  `client_ip` BYTES,
  `path` STRING,
  `n_ns` BIGINT,
  `delta` BIGINT,
  `ratio` DOUBLE,
  `ok` BOOLEAN,
  `sum` BIGINT,
  `_30_ratio_30` DOUBLE,
  `_mark` BIGINT
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
SELECT `_ms` - MOD(`_ms`, CAST(1000 AS BIGINT)) - CASE WHEN MOD(`_ms`, CAST(1000 AS BIGINT)) < 0 THEN CAST(1000 AS BIGINT) ELSE 0 END, `id`, `ts_end`, `client_ip`, `path`, `n_ns`, `delta`, `ratio`, `ok`, `sum`, `ratio#30`, CAST(NULL AS BIGINT) FROM `computed_1`
UNION ALL
SELECT `_second_ms`, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BYTES), CAST(NULL AS STRING), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS DOUBLE), CAST(NULL AS BOOLEAN), CAST(NULL AS BIGINT), CAST(NULL AS DOUBLE), `_mark` FROM `marks_0`;
END;

