//! Stack traces of Flink 2.2, with fewer frames.

use super::*;

const HEAD: &str = "Internal server error.\n<Exception on server side:\norg.apache.flink.table.gateway.api.utils.SqlGatewayException: org.apache.flink.table.gateway.api.utils.SqlGatewayException: Failed to fetchResults.\n\tat org.apache.flink.table.gateway.rest.handler.statement.FetchResultsHandler.handleRequest(FetchResultsHandler.java:91)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\nCaused by: org.apache.flink.table.gateway.service.utils.SqlExecutionException: Failed to execute the operation a6aa0bb2-6394-40d9-ad44-f52dc317cc54.\n\t... 1 more\n";
const TAIL: &str = "\n\t... 7 more\n\nEnd of exception on server side>";

#[track_caller]
fn check(causes: &str, sentence: &str, place: Option<(u32, u32)>, cause: Option<KnownCause>) {
    let said = ErrorSummary::of(&format!("{HEAD}{causes}{TAIL}"));
    let place = place.map(|(line, column)| StatementPosition { line, column });
    assert_eq!(
        said,
        ErrorSummary {
            sentence: sentence.into(),
            place,
            cause
        }
    );
}

#[test]
fn innermost_cause_is_reported_with_its_position() {
    check(
        "Caused by: org.apache.flink.table.api.SqlParserException: SQL parse failed. Non-query expression encountered in illegal context\n\tat x.y(Z.java:1)\nCaused by: org.apache.calcite.runtime.CalciteException: Non-query expression encountered in illegal context",
        "Non-query expression encountered in illegal context",
        None,
        None,
    );
    check(
        "Caused by: org.apache.flink.table.api.SqlParserException: SQL parse failed. Incorrect syntax near the keyword 'FROM' at line 2, column 12.\nWas expecting one of:\n    \"ABS\" ...\n    \"ALL\" ...\n    ",
        "Incorrect syntax near the keyword 'FROM' at line 2, column 12.",
        Some((2, 12)),
        None,
    );
    check(
        "Caused by: org.apache.flink.table.api.ValidationException: SQL validation failed. SQL validation failed. From line 1, column 81 to line 1, column 84: Column 'nope' not found in any table\n\tat x.y(Z.java:1)\nCaused by: org.apache.calcite.runtime.CalciteContextException: From line 1, column 81 to line 1, column 84: Column 'nope' not found in any table\nCaused by: org.apache.calcite.sql.validate.SqlValidatorException: Column 'nope' not found in any table",
        "Column 'nope' not found in any table",
        Some((1, 81)),
        None,
    );
    check(
        "Caused by: org.apache.flink.table.api.ValidationException: Column types of query result and sink for 'default_catalog.default_database.b' do not match.\nCause: Incompatible types for sink column 'x' at position 0.\n\nQuery schema: [EXPR$0: CHAR(1) NOT NULL]\nSink schema:  [x: BIGINT]",
        "Column types of query result and sink for 'default_catalog.default_database.b' do not match. Cause: Incompatible types for sink column 'x' at position 0. Query schema: [EXPR$0: CHAR(1) NOT NULL] Sink schema: [x: BIGINT]",
        None,
        None,
    );
    check(
        "Caused by: java.util.concurrent.ExecutionException: org.apache.flink.runtime.rest.util.RestClientException: [org.apache.flink.runtime.rest.handler.RestHandlerException: Job could not be found.\n\tat x.y(Z.java:1)\nCaused by: org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job (00)\n\tat x.y(Z.java:1)\n]",
        "Could not find Flink job (00)",
        None,
        None,
    );
}

#[test]
fn missing_connectors_are_named() {
    let factory = |name: &str, which: &str| {
        format!(
            "Caused by: org.apache.flink.table.api.ValidationException: Could not find any factory for identifier '{name}' that implements 'org.apache.flink.table.factories.{which}' in the classpath.\n\nAvailable factory identifiers are:\n\nblackhole\ndatagen"
        )
    };
    let sentence = |name: &str, which: &str| {
        format!(
            "Could not find any factory for identifier '{name}' that implements 'org.apache.flink.table.factories.{which}' in the classpath. Available factory identifiers are: blackhole datagen"
        )
    };
    for (name, which, cause) in [
        ("kafka", "DynamicTableFactory", Some(KnownCause::NoKafka)),
        (
            "avro",
            "SerializationFormatFactory",
            Some(KnownCause::NoAvro),
        ),
        ("avrox", "DeserializationFormatFactory", None),
    ] {
        check(&factory(name, which), &sentence(name, which), None, cause);
    }
    let job = "org.apache.flink.runtime.taskmanager.AsynchronousException: Cannot load user class: org.apache.flink.connector.kafka.sink.KafkaSink\nCaused by: java.lang.ClassNotFoundException: org.apache.flink.connector.kafka.sink.KafkaSink\n\tat x.y(Z.java:1)";
    let said = ErrorSummary::of(job);
    assert_eq!(said.cause, Some(KnownCause::NoKafka), "{said:?}");
    assert!(
        said.to_string().contains("flink-sql-connector-kafka"),
        "{said}"
    );
    // Classes of the connector are in the stack trace of a missing compression.
    let zstd = "java.lang.RuntimeException: One or more fetchers have encountered exception\nCaused by: java.lang.NoClassDefFoundError: com/github/luben/zstd/ZstdOutputStreamNoFinalizer\n\tat org.apache.flink.connector.kafka.source.reader.KafkaPartitionSplitReader.fetch(K.java:1)";
    let said = ErrorSummary::of(zstd);
    assert_eq!(said.cause, Some(KnownCause::NoZstd), "{said:?}");
    assert!(said.to_string().contains("zstd-jni"), "{said}");
    let poison = "java.io.IOException: Failed to deserialize consumer record due to\n\tat x.y(Z.java:1)\nCaused by: java.io.IOException: Failed to deserialize Avro record.\nCaused by: java.lang.ArrayIndexOutOfBoundsException: Index 2945 out of bounds for length 2";
    assert_eq!(ErrorSummary::of(poison).cause, Some(KnownCause::Unreadable));
}

#[test]
fn any_text_becomes_a_short_sentence() {
    for (text, sentence) in [
        ("", "no cause given"),
        ("\n\n", "no cause given"),
        ("Not found: /v1/x", "Not found: /v1/x"),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "Java heap space",
        ),
        (
            "java.lang.RuntimeException: it broke\n\tat x.y(Z.java:1)\nCaused by: java.lang.NullPointerException\n\tat x",
            "it broke",
        ),
        (
            "java.util.concurrent.TimeoutException: Heartbeat of TaskManager with id tm1 timed out.",
            "Heartbeat of TaskManager with id tm1 timed out.",
        ),
        (
            "line 99999999999, column 1 line line 3, column",
            "line 99999999999, column 1 line line 3, column",
        ),
    ] {
        let said = ErrorSummary::of(text);
        assert_eq!(
            (said.sentence.as_str(), said.place),
            (sentence, None),
            "{text:?}"
        );
    }
    let endless = format!("Caused by: {}", "ü ".repeat(100_000));
    assert_eq!(
        ErrorSummary::of(&endless).sentence.chars().count(),
        LONGEST + 1
    );
}
