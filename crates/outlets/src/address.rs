//! Addresses of outlets: `SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/PATH][?QUERY][#OPTION=VALUE&…]`. The part after `#`
//! contains local options and is never sent. Passwords come from files or the environment, because all users of the
//! machine can read arguments.

use std::fmt;

/// A text that is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> SecretText {
        SecretText(text.into())
    }

    /// The text, for its receiver.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Protocol of an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutletScheme {
    /// JSON lines over TCP.
    Tcp,
    /// JSON lines over TLS.
    TcpTls,
    /// A local page scraped by Prometheus.
    Prometheus,
    /// Sorted sets and streams in Redis.
    Redis,
    /// Redis over TLS.
    RedisTls,
    /// Signed JSON over HTTP.
    Webhook,
    /// Signed JSON over HTTPS.
    WebhookTls,
    /// OpenTelemetry metrics over HTTP.
    Otlp,
    /// OpenTelemetry metrics over HTTPS.
    OtlpTls,
    /// Records of a Kafka topic.
    Kafka,
    /// IPFIX over UDP.
    Ipfix,
    /// IPFIX over TCP.
    IpfixTcp,
    /// NetFlow v9 over UDP.
    Netflow9,
    /// sFlow, for packets.
    Sflow,
    /// Alerts to an Alertmanager.
    Alertmanager,
    /// Alerts to an Alertmanager over HTTPS.
    AlertmanagerTls,
}

impl OutletScheme {
    /// All schemes by name.
    pub const ALL: [(&'static str, OutletScheme); 16] = [
        ("tcp", OutletScheme::Tcp),
        ("tcps", OutletScheme::TcpTls),
        ("prometheus", OutletScheme::Prometheus),
        ("redis", OutletScheme::Redis),
        ("rediss", OutletScheme::RedisTls),
        ("webhook+http", OutletScheme::Webhook),
        ("webhook+https", OutletScheme::WebhookTls),
        ("otlp+http", OutletScheme::Otlp),
        ("otlp+https", OutletScheme::OtlpTls),
        ("kafka", OutletScheme::Kafka),
        ("ipfix", OutletScheme::Ipfix),
        ("ipfix+tcp", OutletScheme::IpfixTcp),
        ("netflow9", OutletScheme::Netflow9),
        ("sflow", OutletScheme::Sflow),
        ("alertmanager+http", OutletScheme::Alertmanager),
        ("alertmanager+https", OutletScheme::AlertmanagerTls),
    ];

    /// Name in addresses.
    #[must_use]
    pub fn name(self) -> &'static str {
        OutletScheme::ALL
            .iter()
            .find(|(_, scheme)| *scheme == self)
            .map_or("", |(name, _)| name)
    }

    /// Whether the scheme supports users.
    fn has_users(self) -> bool {
        !matches!(
            self,
            OutletScheme::Tcp
                | OutletScheme::TcpTls
                | OutletScheme::Prometheus
                | OutletScheme::Webhook
                | OutletScheme::WebhookTls
                | OutletScheme::Kafka
                | OutletScheme::Ipfix
                | OutletScheme::IpfixTcp
                | OutletScheme::Netflow9
                | OutletScheme::Sflow
        )
    }

    /// Whether the scheme accepts only results of processors, and no tuples.
    #[must_use]
    pub fn wants_results(self) -> bool {
        matches!(
            self,
            OutletScheme::Prometheus | OutletScheme::Otlp | OutletScheme::OtlpTls
        )
    }

    fn usual_port(self) -> Option<u16> {
        match self {
            OutletScheme::Tcp | OutletScheme::TcpTls => None,
            OutletScheme::Prometheus => Some(9464),
            OutletScheme::Redis | OutletScheme::RedisTls => Some(6379),
            OutletScheme::Webhook => Some(80),
            OutletScheme::WebhookTls => Some(443),
            OutletScheme::Otlp | OutletScheme::OtlpTls => Some(4318),
            OutletScheme::Kafka => Some(9092),
            OutletScheme::Ipfix | OutletScheme::IpfixTcp => Some(4739),
            OutletScheme::Netflow9 => Some(2055),
            OutletScheme::Sflow => Some(6343),
            OutletScheme::Alertmanager | OutletScheme::AlertmanagerTls => Some(9093),
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            OutletScheme::Tcp | OutletScheme::Prometheus => &[],
            OutletScheme::TcpTls => &["ca-file"],
            OutletScheme::Redis => &["secret", "prefix", "entries", "keep"],
            OutletScheme::RedisTls => &["secret", "prefix", "entries", "keep", "ca-file"],
            OutletScheme::Webhook | OutletScheme::Otlp | OutletScheme::Alertmanager => &["secret"],
            OutletScheme::WebhookTls | OutletScheme::OtlpTls | OutletScheme::AlertmanagerTls => {
                &["secret", "ca-file"]
            }
            OutletScheme::Kafka => &["properties-file", "name", "partitions", "keep"],
            OutletScheme::Ipfix => &[
                "domain",
                "pen",
                "directions",
                "octets",
                "templates",
                "message",
                "rate",
            ],
            OutletScheme::IpfixTcp => &["domain", "pen", "directions", "octets", "message"],
            OutletScheme::Netflow9 => &["domain", "templates", "message", "rate"],
            OutletScheme::Sflow => &["agent", "header", "rate"],
        }
    }
}

/// Source of a text, which determines who may have read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// In an argument of the command line.
    InArgument,
    /// The text is in a file.
    InFile,
}

/// See the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutletAddress {
    /// Protocol.
    pub scheme: OutletScheme,
    /// Host name or address, IPv6 without brackets.
    pub host: String,
    /// Port; default: that of the scheme.
    pub port: u16,
    /// Other Kafka brokers: names or addresses, and ports.
    pub others: Vec<(String, u16)>,
    /// Path with leading `/` and query; may be empty.
    pub path: SecretText,
    /// User name.
    pub user: Option<String>,
    /// Password, or key for signatures.
    pub secret: Option<SecretText>,
    /// File with trusted certificate authorities; default: the system's.
    pub ca_file: Option<String>,
    /// Other options.
    pub options: Vec<(String, String)>,
}

/// Reads files and environment variables named by options.
pub trait SecretSource {
    /// Content of a file.
    ///
    /// # Errors
    /// A message.
    fn file(&self, path: &str) -> Result<String, String>;

    /// Value of a variable.
    ///
    /// # Errors
    /// A message.
    fn variable(&self, name: &str) -> Result<String, String>;
}

/// Files and variables of this machine.
pub struct SystemSecrets;

impl SecretSource for SystemSecrets {
    fn file(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))
    }

    fn variable(&self, name: &str) -> Result<String, String> {
        std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))
    }
}

impl OutletAddress {
    /// Parses an argument: an address, or `@FILE` with one in a file.
    ///
    /// # Errors
    /// A message.
    pub fn read(argument: &str, secrets: &dyn SecretSource) -> Result<OutletAddress, String> {
        match argument.strip_prefix('@') {
            Some(path) => {
                OutletAddress::parse(secrets.file(path)?.trim(), AddressSource::InFile, secrets)
            }
            None => OutletAddress::parse(argument, AddressSource::InArgument, secrets),
        }
    }

    fn parse(
        text: &str,
        written: AddressSource,
        secrets: &dyn SecretSource,
    ) -> Result<OutletAddress, String> {
        let (text, options) = text.split_once('#').unwrap_or((text, ""));
        let known = || {
            OutletScheme::ALL
                .map(|(name, _)| format!("{name}://"))
                .join(", ")
        };
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("an address must start with one of {}", known()))?;
        let scheme = OutletScheme::ALL
            .iter()
            .find(|(name, _)| *name == scheme)
            .map(|(_, scheme)| *scheme);
        let scheme =
            scheme.ok_or_else(|| format!("an address must start with one of {}", known()))?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let (user, password) = match user.and_then(|user| user.split_once(':')) {
            Some((user, password)) => (Some(user), Some(password)),
            None => (user, None),
        };
        if password.is_some() && written == AddressSource::InArgument {
            return Err("a password in an address can be read by all users of this machine: name a file with \
                        #secret-file=FILE, a variable with #secret-env=NAME, or put the whole address into \
                        a file: @FILE"
                .into());
        }
        if user.is_some() && !scheme.has_users() {
            return Err(format!("{}:// does not support users", scheme.name()));
        }
        let (authority, others) = match authority.split_once(',') {
            Some((first, others)) if scheme == OutletScheme::Kafka => (first, others),
            _ => (authority, ""),
        };
        let (host, port) = host_and_port(authority, scheme)?;
        let others = others.split(',').filter(|other| !other.is_empty());
        let others = others
            .map(|other| host_and_port(other, scheme))
            .collect::<Result<_, _>>()?;
        let mut address = OutletAddress {
            scheme,
            host,
            port,
            others,
            path: SecretText::new(path),
            user: user.filter(|user| !user.is_empty()).map(unescaped),
            secret: password.map(|password| SecretText::new(unescaped(password))),
            ca_file: None,
            options: Vec::new(),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            address.take_option(option, secrets)?;
        }
        Ok(address)
    }

    fn take_option(&mut self, option: &str, secrets: &dyn SecretSource) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let known = self.scheme.options();
        let is_secret = matches!(name, "secret-file" | "secret-env");
        if !(known.contains(&name) || is_secret && known.contains(&"secret")) {
            let names = known.iter().map(|name| {
                if *name == "secret" {
                    "secret-file, secret-env"
                } else {
                    name
                }
            });
            let names: Vec<&str> = names.collect();
            let scheme = self.scheme.name();
            return Err(if names.is_empty() {
                format!("{scheme}:// does not support options after #")
            } else {
                format!(
                    "{scheme}:// has no option {name:?}; its options: {}",
                    names.join(", ")
                )
            });
        }
        match name {
            "secret-file" => self.secret = Some(SecretText::new(secrets.file(value)?.trim())),
            "secret-env" => self.secret = Some(SecretText::new(secrets.variable(value)?.trim())),
            "ca-file" => self.ca_file = Some(value.into()),
            name => self.options.push((name.into(), value.into())),
        }
        if self
            .secret
            .as_ref()
            .is_some_and(|secret| secret.reveal().is_empty())
        {
            return Err(format!("{name}={value} is empty"));
        }
        Ok(())
    }

    /// Numeric value of an option, or the default.
    ///
    /// # Errors
    /// A message, if it is not a positive number.
    pub fn number(&self, option: &str, usual: u64) -> Result<u64, String> {
        match self.options.iter().find(|(name, _)| name == option) {
            Some((name, value)) => {
                let number = value.parse().ok().filter(|number| *number > 0);
                number.ok_or_else(|| format!("{name}={value} is not a number above 0"))
            }
            None => Ok(usual),
        }
    }

    /// Text of an option, or the default.
    #[must_use]
    pub fn text<'a>(&'a self, option: &str, usual: &'a str) -> &'a str {
        self.options
            .iter()
            .find(|(name, _)| name == option)
            .map_or(usual, |(_, value)| value)
    }

    /// `host:port`, IPv6 in brackets; several brokers are separated by commas.
    #[must_use]
    pub fn authority(&self) -> String {
        let OutletAddress {
            host, port, others, ..
        } = self;
        let shown = |(host, port): (&String, u16)| {
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        };
        let others = others.iter().map(|(host, port)| (host, *port));
        let all: Vec<String> = std::iter::once((host, *port))
            .chain(others)
            .map(shown)
            .collect();
        all.join(",")
    }
}

/// Omits possible secrets: user, password, path and options.
impl fmt::Display for OutletAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())
    }
}

fn host_and_port(authority: &str, scheme: OutletScheme) -> Result<(String, u16), String> {
    let (host, port) = match authority
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, "")) => (host, None),
        // Text without a colon is not a port either.
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or_default())),
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("the address lacks a host".into());
    }
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => scheme.usual_port(),
    };
    let port = port.ok_or_else(|| "the address lacks a port from 1 to 65535".to_owned())?;
    Ok((host.to_owned(), port))
}

/// Decodes percent encoding.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail
            .get(..2)
            .filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FixedSecrets;

    impl SecretSource for FixedSecrets {
        fn file(&self, path: &str) -> Result<String, String> {
            match path {
                "key" => Ok("s3cret\n".into()),
                "url" => Ok("redis://me:p%40ss@h:1/2\n".into()),
                _ => Err(format!("cannot read {path}")),
            }
        }

        fn variable(&self, name: &str) -> Result<String, String> {
            Err(format!("the environment variable {name} is not set"))
        }
    }

    fn check(argument: &str, expected: Result<&str, &str>) {
        let read = OutletAddress::read(argument, &FixedSecrets);
        match expected {
            Ok(shown) => {
                let address = read.unwrap_or_else(|why| panic!("{argument}: {why}"));
                assert_eq!(address.to_string(), shown, "{argument}");
                let debug = format!("{address:?}");
                assert!(
                    !debug.contains("s3cret") && !debug.contains("p@ss"),
                    "{debug}"
                );
            }
            Err(part) => {
                let why = read.expect_err(argument);
                assert!(why.contains(part), "{argument}: {why}");
                assert!(!why.contains("s3cret"), "{why}");
            }
        }
    }

    #[test]
    fn addresses_are_read_and_secrets_are_hidden() {
        check("tcp://127.0.0.1:9000", Ok("tcp://127.0.0.1:9000"));
        check("tcps://[::1]:9000/#ca-file=ca.pem", Ok("tcps://[::1]:9000"));
        check("@url", Ok("redis://h:1"));
        check("@missing", Err("cannot read missing"));
        check("redis://me:s3cret@h:1", Err("all users of this machine"));
        check("tcp://me@h:1", Err("does not support users"));
        check(
            "webhook+https://h/x#secret-file=key",
            Ok("webhook+https://h:443"),
        );
        check(
            "webhook+https://h/x#secret-env=KEY",
            Err("variable KEY is not set"),
        );
        check("redis://h/0#entries=5&keep=60", Ok("redis://h:6379"));
        check("kafka://h", Ok("kafka://h:9092"));
        check(
            "kafka://h:1,[::1]:2,g/topic#name=shop",
            Ok("kafka://h:1,[::1]:2,g:9092"),
        );
        check("kafka://h:1,g:x", Err("lacks a port"));
        check("tcp://h", Err("lacks a port"));
        check("tcp://h:0", Err("lacks a port"));
        check("tcp://:1", Err("lacks a host"));
        check("udp://h:1", Err("must start with one of tcp://"));
        check("h:1", Err("must start with one of tcp://"));
        check("tcp://h:1#key=1", Err("does not support options"));
        check("tcps://h:1#key=1", Err("its options: ca-file"));
        let address = OutletAddress::read("@url", &FixedSecrets).expect("it is one");
        assert_eq!(
            (address.user.as_deref(), address.secret),
            (Some("me"), Some(SecretText::new("p@ss")))
        );
    }
}
