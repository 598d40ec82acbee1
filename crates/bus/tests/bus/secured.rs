//! TLS and passwords, as properties passed on to librdkafka.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bus::{Kafka, PartitionEnd, TopicAdmin};
use testkit::cluster::{ClusterParts, TestCluster};
use testkit::programs::wait_for;

use crate::{TMP, read, texts, topic, write};

#[test]
fn brokers_with_certificates_and_passwords() {
    testkit::require!("openssl");
    let Some(cluster) = TestCluster::start(Path::new(TMP), "bus-secured", ClusterParts::Kafka(1))
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let key = file("key.pem");
    let certificate = file("certificate.pem");
    let both = file("both.pem");
    let script = format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 2 -subj /CN=broker \
         -addext subjectAltName=IP:127.0.0.1 2>/dev/null && cat {key} {certificate} >{both}"
    );
    assert!(
        Command::new("sh")
            .args(["-c", &script])
            .status()
            .expect("a shell")
            .success()
    );
    cluster.kill("broker-1");
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    let controller = cluster
        .property("broker-1", "listeners")
        .split(',')
        .next_back()
        .expect("two")
        .to_owned();
    cluster.configure_broker("broker-1", &[
        format!("listeners=SASL_SSL://{},{controller}", cluster.kafka),
        format!("advertised.listeners=SASL_SSL://{}", cluster.kafka),
        "listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT".into(),
        "inter.broker.listener.name=SASL_SSL".into(),
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512".into(),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;".into(),
        "sasl.mechanism.inter.broker.protocol=PLAIN".into(),
        format!(
            "listener.name.sasl_ssl.plain.sasl.jaas.config={module} username=\"b\" password=\"b\" user_b=\"b\" user_net=\"secret\";"
        ),
        "ssl.keystore.type=PEM".into(),
        format!("ssl.keystore.location={both}"),
        "ssl.truststore.type=PEM".into(),
        format!("ssl.truststore.location={certificate}"),
    ]);
    cluster.start_again("broker-1");
    let with = |mechanism: &str, authority: &str, password: &str| {
        let properties = [
            "security.protocol=SASL_SSL".to_owned(),
            format!("sasl.mechanism={mechanism}"),
            "sasl.username=net".to_owned(),
            format!("sasl.password={password}"),
            format!("ssl.ca.location={authority}"),
        ];
        Kafka::new(&cluster.kafka, properties.iter().map(String::as_str)).expect("properties")
    };
    let answers = |kafka: &Kafka| {
        wait_for("the broker", || {
            TopicAdmin::connect(kafka, Duration::from_secs(5))
                .map(drop)
                .map_err(|error| error.to_string())
        });
    };
    let kafka = with("PLAIN", &certificate, "secret");
    answers(&kafka);
    let topic = topic(&kafka, "secured", 1);
    write(&kafka, &topic, 0, 0..100);
    assert_eq!(read(&kafka, &topic, 0, 0, PartitionEnd::End), texts(0..100));

    // SCRAM: the password is stored by the brokers and not sent in plain text.
    let client = file("client.properties");
    let lines = format!(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\nssl.truststore.location={certificate}\n\
         sasl.jaas.config={module} username=\"net\" password=\"secret\";\n"
    );
    std::fs::write(&client, lines).expect("a file");
    let user = ["--alter", "--entity-type", "users", "--entity-name", "net"];
    let told = cluster
        .kafka_tool("kafka.admin.ConfigCommand")
        .args(["--command-config", &client])
        .args(user)
        .args(["--add-config", "SCRAM-SHA-512=[password=kept]"])
        .output()
        .expect("Java");
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
    let scram = with("SCRAM-SHA-512", &certificate, "kept");
    answers(&scram);
    write(&scram, &topic, 0, 100..200);
    assert_eq!(read(&scram, &topic, 0, 0, PartitionEnd::End), texts(0..200));

    let refused = |kafka: &Kafka, reason: &str| {
        let error = TopicAdmin::connect(kafka, Duration::from_secs(3))
            .err()
            .expect("it is refused")
            .to_string();
        let begin = format!("no broker responds at {}: ", cluster.kafka);
        assert!(
            error.starts_with(&begin) && error.contains(reason),
            "{error}"
        );
        assert!(!error.contains("guessed"), "{error}");
    };
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        refused(
            &with(mechanism, &certificate, "guessed"),
            "Authentication failed",
        );
    }
    // A foreign certificate authority, which signed no certificate.
    let other = file("other.pem");
    let script = format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {other} -days 2 -subj /CN=other 2>/dev/null"
    );
    assert!(
        Command::new("sh")
            .args(["-c", &script])
            .status()
            .expect("a shell")
            .success()
    );
    refused(&with("PLAIN", &other, "secret"), "certificate");
    refused(&Kafka::new(&cluster.kafka, []).expect("an address"), "");
}
