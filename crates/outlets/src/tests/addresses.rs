//! Addresses and their options.

use crate::address::{OutletAddress, OutletScheme, SecretSource, SecretText};
use crate::alert_sender::AlertSender;
use crate::desired_state::DesiredStateSender;
use crate::names::{attribute, for_prometheus};
use crate::post::authorization;

/// Every file has this content, every variable that one.
struct OneSecret {
    file: &'static str,
    variable: &'static str,
}

impl SecretSource for OneSecret {
    fn file(&self, _: &str) -> Result<String, String> {
        Ok(self.file.into())
    }

    fn variable(&self, _: &str) -> Result<String, String> {
        Ok(self.variable.into())
    }
}

const SECRETS: OneSecret = OneSecret {
    file: " of a file\n",
    variable: "of a variable",
};

#[track_caller]
fn read(argument: &str) -> OutletAddress {
    OutletAddress::read(argument, &SECRETS).expect("an address")
}

#[track_caller]
fn refused(argument: &str) -> String {
    OutletAddress::read(argument, &SECRETS).expect_err("no address")
}

#[test]
fn every_scheme_has_one_name() {
    for (name, scheme) in OutletScheme::ALL {
        assert_eq!(scheme.name(), name);
        assert_eq!(read(&format!("{name}://host:1")).scheme, scheme);
        assert_eq!(
            OutletScheme::ALL
                .iter()
                .filter(|(known, of)| *known == name || *of == scheme)
                .count(),
            1
        );
    }
}

#[test]
fn default_ports_are_those_of_the_protocols() {
    let port = |scheme: &str| read(&format!("{scheme}://host")).port;
    let ports = [
        "prometheus",
        "redis",
        "rediss",
        "webhook+http",
        "webhook+https",
    ]
    .map(port);
    assert_eq!(ports, [9464, 6379, 6379, 80, 443]);
    let ports = [
        "otlp+http",
        "otlp+https",
        "kafka",
        "alertmanager+http",
        "alertmanager+https",
    ]
    .map(port);
    assert_eq!(ports, [4318, 4318, 9092, 9093, 9093]);
}

#[test]
fn ports_have_sixteen_bits() {
    assert_eq!(read("tcp://host:65535").port, 65_535);
    for port in ["65536", "-1", "", "http", "0"] {
        assert_eq!(
            refused(&format!("tcp://host:{port}")),
            "the address lacks a port from 1 to 65535"
        );
    }
}

#[test]
fn ipv6_addresses_are_in_brackets() {
    let address = read("redis://[2001:db8::1]");
    assert_eq!((&*address.host, address.port), ("2001:db8::1", 6379));
    assert_eq!(address.authority(), "[2001:db8::1]:6379");
    assert_eq!(refused("redis://[]:1"), "the address lacks a host");
}

/// A mistyped port is not replaced by the default.
#[test]
fn text_after_brackets_is_a_port() {
    for address in ["redis://[::1]6380", "redis://[::1]x:6380", "redis://[::1]:"] {
        assert!(refused(address).contains("lacks a port"), "{address}");
    }
}

#[test]
fn an_address_that_is_no_url_is_an_error_at_the_start() {
    let sender = |argument| AlertSender::new(&read(argument)).err();
    let why = "its host or path has characters that must be percent-encoded";
    for address in [
        "webhook+http://h/a b",
        "alertmanager+http://h h/",
        "webhook+http://h/<token>",
    ] {
        assert_eq!(sender(address).as_deref(), Some(why), "{address}");
    }
    assert_eq!(sender("webhook+http://[::1]:8080/a%20b?c=d"), None);
}

/// With an empty key, everyone can sign.
#[test]
fn an_empty_key_is_an_error() {
    let prefix_only = OneSecret {
        file: "whsec_\n",
        variable: "whsec_",
    };
    for option in ["secret-file=key", "secret-env=KEY"] {
        let address = format!("webhook+http://h#{option}");
        let address = OutletAddress::read(&address, &prefix_only).expect("an address");
        let why = AlertSender::new(&address).err();
        assert_eq!(why.as_deref(), Some("the key after whsec_ is empty"));
    }
}

#[test]
fn paths_keep_their_query_and_are_not_shown() {
    let address = read("webhook+https://host/hook?token=abc#secret-env=KEY");
    assert_eq!(address.path.reveal(), "/hook?token=abc");
    assert_eq!(address.to_string(), "webhook+https://host:443");
    assert!(!format!("{address:?}").contains("abc"));
    assert_eq!(read("webhook+http://host?x=1").path.reveal(), "?x=1");
}

#[test]
fn only_kafka_has_several_hosts() {
    let address = read("kafka://a:1,b,[::1]:3");
    let others = [("b".to_owned(), 9092), ("::1".to_owned(), 3)];
    assert_eq!(
        (&*address.host, address.port, &*address.others),
        ("a", 1, &others[..])
    );
    assert!(refused("redis://a:1,b:x").contains("lacks a port"));
}

#[test]
fn secrets_are_of_files_or_variables_without_surrounding_space() {
    let secret = |argument| read(argument).secret;
    assert_eq!(
        secret("redis://h#secret-file=key"),
        Some(SecretText::new("of a file"))
    );
    assert_eq!(
        secret("redis://h#secret-env=KEY"),
        Some(SecretText::new("of a variable"))
    );
    // The last one counts.
    assert_eq!(
        secret("redis://h#secret-file=a&secret-env=B"),
        Some(SecretText::new("of a variable"))
    );
    assert_eq!(secret("redis://h"), None);
}

#[test]
fn an_empty_secret_is_an_error() {
    let empty = OneSecret {
        file: "\n",
        variable: "",
    };
    for option in ["secret-file=key", "secret-env=KEY"] {
        let error =
            OutletAddress::read(&format!("redis://h#{option}"), &empty).expect_err("no secret");
        assert_eq!(error, format!("{option} is empty"));
    }
}

#[test]
fn percent_escapes_of_users_are_decoded() {
    let user = |text: &str| read(&format!("redis://{text}@h")).user;
    for (text, decoded) in [
        ("a%40b", "a@b"),
        ("%C3%A9", "é"),
        ("50%", "50%"),
        ("%zz", "%zz"),
        ("%4", "%4"),
        ("%+4", "%+4"),
        ("%25", "%"),
        ("%2525", "%25"),
    ] {
        assert_eq!(user(text).as_deref(), Some(decoded));
    }
    assert_eq!(user("%FF").as_deref(), Some("\u{fffd}"), "no UTF-8");
    assert_eq!(user(""), None);
}

#[test]
fn numeric_options_are_positive() {
    let keep = |text: &str| read(&format!("redis://h#keep={text}")).number("keep", 7);
    assert_eq!(
        (keep("1"), keep("18446744073709551615")),
        (Ok(1), Ok(u64::MAX))
    );
    for text in ["0", "-1", "x", "", "18446744073709551616"] {
        assert_eq!(
            keep(text),
            Err(format!("keep={text} is not a number above 0"))
        );
    }
    assert_eq!(read("redis://h").number("keep", 7), Ok(7));
    assert_eq!(read("redis://h").text("prefix", "usual"), "usual");
    assert_eq!(
        read("redis://h#prefix=shop").text("prefix", "usual"),
        "shop"
    );
}

#[test]
fn options_are_those_of_the_scheme() {
    assert!(
        refused("redis://h#ca-file=x").contains("its options: secret-file, secret-env, prefix")
    );
    assert_eq!(read("rediss://h#ca-file=x").ca_file.as_deref(), Some("x"));
    assert!(refused("kafka://h#secret-file=x").contains("has no option \"secret-file\""));
    assert!(refused("prometheus://h#keep=1").contains("does not support options after #"));
}

#[test]
fn a_user_makes_basic_and_a_secret_alone_bearer_authorization() {
    let header = |argument| authorization(&read(argument));
    assert_eq!(header("otlp+http://h"), None);
    assert_eq!(
        header("otlp+http://h#secret-env=T").as_deref(),
        Some("Bearer of a variable")
    );
    // By `printf 'me:of a variable' | base64`.
    assert_eq!(
        header("otlp+http://me@h#secret-env=T").as_deref(),
        Some("Basic bWU6b2YgYSB2YXJpYWJsZQ==")
    );
    assert_eq!(header("otlp+http://me@h").as_deref(), Some("Basic bWU6"));
}

#[test]
fn desired_states_are_signed_or_stored() {
    let refused = |argument| {
        DesiredStateSender::new(&read(argument))
            .err()
            .unwrap_or_default()
    };
    assert!(refused("webhook+http://h").starts_with("decisions are signed"));
    assert!(refused("tcp://h:1").starts_with("tcp:// cannot execute decisions"));
    assert!(refused("kafka://h").starts_with("kafka:// cannot execute decisions"));
    assert_eq!(refused("redis://h"), "");
    assert_eq!(refused("webhook+http://h#secret-env=KEY"), "");
}

#[test]
fn names_for_prometheus_are_ascii() {
    for (name, expected) in [
        ("größe", "gr__e"),
        ("", ""),
        ("a:b", "a_b"),
        ("9", "_9"),
        ("_x9", "_x9"),
    ] {
        assert_eq!(for_prometheus(name), expected);
    }
}

/// Otherwise one of them would be lost, or a label would occur twice.
#[test]
fn columns_of_a_parser_have_different_attributes() {
    for schema in parsers::registry::schemas() {
        let parser = [schema.name.to_string()];
        let mut seen = std::collections::BTreeMap::new();
        for field in &schema.fields {
            let label = for_prometheus(attribute(&parser, &field.name));
            let other = seen.insert(label, &field.name);
            assert_eq!(other, None, "{}: {}", schema.name, field.name);
        }
    }
}

#[test]
fn attributes_of_several_parsers_are_those_of_any() {
    let of = |parsers: &[&str], column| {
        let parsers: Vec<String> = parsers.iter().map(|name| (*name).to_owned()).collect();
        attribute(&parsers, column).to_owned()
    };
    assert_eq!(of(&["tcp_conn_time", "http_get"], "path"), "url.path");
    assert_eq!(of(&["tcp_conn_time"], "path"), "path");
    assert_eq!(of(&[], "server_port"), "server.port");
    // A parser whose name only begins like another one has its own columns.
    assert_eq!(of(&["httpx"], "path"), "path");
}
