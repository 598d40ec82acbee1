SET 'pipeline.name' = 'netalytics 7';

SET 'table.local-time-zone' = 'UTC';

SET 'execution.runtime-mode' = 'streaming';

SET 'execution.checkpointing.mode' = 'EXACTLY_ONCE';

SET 'execution.checkpointing.interval' = '1000 ms';

SET 'restart-strategy.type' = 'fixed-delay';

SET 'restart-strategy.fixed-delay.attempts' = '2147483647';

SET 'restart-strategy.fixed-delay.delay' = '1 s';

SET 'parallelism.default' = '2';

CREATE TEMPORARY TABLE `sent_0` (
  `wm_ms` BIGINT,
  `et_ms` BIGINT,
  `pane` BIGINT,
  `k0` BYTES,
  `k1` STRING,
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
  `a3` BIGINT,
  `a4_n` BIGINT,
  `a4_sum` DECIMAL(38, 0),
  `a4_squares` DECIMAL(38, 0),
  `a5_min` DOUBLE,
  `a5_max` DOUBLE,
  `_et` AS TO_TIMESTAMP_LTZ(COALESCE(`et_ms`, `wm_ms`), 3),
  WATERMARK FOR `_et` AS TO_TIMESTAMP_LTZ(`wm_ms`, 3)
) WITH (
  'connector' = 'kafka',
  'topic' = 'netalytics.cells.v1.0011223344556677',
  'properties.bootstrap.servers' = 'kafka-1:9092,kafka-2:9092',
  'format' = 'avro',
  'properties.security.protocol' = 'SSL',
  'properties.group.id' = 'netalytics-7',
  'scan.startup.mode' = 'timestamp',
  'scan.startup.timestamp-millis' = '1700000000000',
  'scan.topic-partition-discovery.interval' = '2000 ms',
  'scan.watermark.idle-timeout' = '5000 ms'
);

CREATE TEMPORARY VIEW `rows_0` AS
SELECT
  `_et`,
  `et_ms` - MOD(`et_ms`, CAST(1000 AS BIGINT)) - CASE WHEN MOD(`et_ms`, CAST(1000 AS BIGINT)) < 0 THEN CAST(1000 AS BIGINT) ELSE 0 END AS `et_ms`,
  `pane`,
  `k0`,
  `k1`,
  `rate`,
  `replicate`,
  `slot`,
  `at`,
  `bits`,
  `whole`,
  `tuples`,
  `first_ns`,
  `last_ns`,
  `n`,
  `a0_n`,
  `a1_n`,
  `a1_sum`,
  `a2`,
  `a3`,
  `a4_n`,
  `a4_sum`,
  `a4_squares`,
  `a5_min`,
  `a5_max`
FROM `sent_0`
WHERE `pane` IS NOT NULL;

CREATE TEMPORARY VIEW `panes_0` AS
SELECT
  `window_start` AS `_start`,
  `window_end` AS `_end`,
  `window_time` AS `_time`,
  `et_ms`,
  `pane`,
  `k0`,
  `k1`,
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
  MIN(`a2`) AS `a2`,
  MAX(`a3`) AS `a3`,
  SUM(`a4_n`) AS `a4_n`,
  SUM(`a4_sum`) AS `a4_sum`,
  SUM(`a4_squares`) AS `a4_squares`,
  MIN(`a5_min`) AS `a5_min`,
  MAX(`a5_max`) AS `a5_max`
FROM TABLE(TUMBLE(TABLE `rows_0`, DESCRIPTOR(`_et`), INTERVAL '0 00:00:01.000' DAY TO SECOND(3)))
GROUP BY `window_start`, `window_end`, `window_time`, `et_ms`, `pane`, `k0`, `k1`, `rate`, `replicate`, `slot`, `at`, `bits`, `whole`;

CREATE TEMPORARY VIEW `marks_0` AS
SELECT MIN(`et_ms`) AS `et_ms`, COUNT(*) AS `mark`
FROM TABLE(TUMBLE(TABLE `panes_0`, DESCRIPTOR(`_time`), INTERVAL '0 00:00:01.000' DAY TO SECOND(3)))
GROUP BY `window_start`, `window_end`;

CREATE TEMPORARY TABLE `merged_0` (
  `et_ms` BIGINT,
  `pane` BIGINT,
  `k0` BYTES,
  `k1` STRING,
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
  `a3` BIGINT,
  `a4_n` BIGINT,
  `a4_sum` DECIMAL(38, 0),
  `a4_squares` DECIMAL(38, 0),
  `a5_min` DOUBLE,
  `a5_max` DOUBLE,
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
SELECT `et_ms`, `pane`, `k0`, `k1`, `rate`, `replicate`, `slot`, `at`, `bits`, `whole`, `tuples`, `first_ns`, `last_ns`, `n`, `a0_n`, `a1_n`, `a1_sum`, `a2`, `a3`, `a4_n`, `a4_sum`, `a4_squares`, `a5_min`, `a5_max`, CAST(NULL AS BIGINT) FROM `panes_0`
UNION ALL
SELECT `et_ms`, CAST(NULL AS BIGINT), CAST(NULL AS BYTES), CAST(NULL AS STRING), CAST(NULL AS DOUBLE), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BYTES), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS DECIMAL(38, 0)), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS DECIMAL(38, 0)), CAST(NULL AS DECIMAL(38, 0)), CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), `mark` FROM `marks_0`;
END;

