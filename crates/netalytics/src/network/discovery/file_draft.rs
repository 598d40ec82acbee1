//! A network file in progress: entries with keys in a readable order. Keys of an existing file are kept unless the
//! discovery has found another value.

use std::collections::BTreeMap;

use serde_json::Value;

/// Order of keys.
const ORDER: [&str; 22] = [
    "name",
    "tier",
    "bridge",
    "ovsdb",
    "controller",
    "controller_token",
    "datapath",
    "forwarding",
    "first_table",
    "tunnel",
    "addresses",
    "at",
    "agent",
    "via",
    "interface",
    "cores",
    "memory",
    "used",
    "spare",
    "quiet",
    "ends",
    "mbps",
];

/// One `[[switch]]`, `[[host]]`, `[[link]]` or `[[traffic]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkFileEntry {
    /// Values by key.
    pub keys: BTreeMap<String, Value>,
    /// Comment after its name.
    pub remark: Option<&'static str>,
}

impl NetworkFileEntry {
    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.insert(key.to_owned(), value.into());
    }

    /// Sets a key unless it has a value.
    pub fn set_if_missing(&mut self, key: &str, value: impl Into<Value>) {
        self.keys
            .entry(key.to_owned())
            .or_insert_with(|| value.into());
    }

    /// Value of a key as text.
    pub fn text(&self, key: &str) -> &str {
        self.keys
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Value of a key as list of texts.
    pub fn texts(&self, key: &str) -> Vec<String> {
        let all = self
            .keys
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn print(&self, kind: &str, out: &mut String) {
        *out += &format!("\n[[{kind}]]\n");
        let place = |key: &str| {
            ORDER
                .iter()
                .position(|known| *known == key)
                .unwrap_or(ORDER.len())
        };
        let mut keys: Vec<(&String, &Value)> = self.keys.iter().collect();
        keys.sort_by_key(|(key, _)| place(key));
        for (nth, (key, value)) in keys.into_iter().enumerate() {
            // JSON strings, numbers and lists of strings are also valid TOML.
            let remark = self
                .remark
                .filter(|_| nth == 0)
                .map(|text| format!(" # {text}"))
                .unwrap_or_default();
            *out += &format!("{key} = {value}{remark}\n");
        }
    }
}

/// A complete file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkFileDraft {
    /// Switches.
    pub switches: Vec<NetworkFileEntry>,
    /// Hosts.
    pub hosts: Vec<NetworkFileEntry>,
    /// Links.
    pub links: Vec<NetworkFileEntry>,
    /// Expected traffic.
    pub traffic: Vec<NetworkFileEntry>,
}

impl NetworkFileDraft {
    /// Parses a file that was already accepted as a network.
    pub fn read(text: &str) -> NetworkFileDraft {
        let file: Value = toml::from_str(text).unwrap_or_default();
        let entries = |kind: &str| {
            let all = file[kind].as_array().into_iter().flatten();
            let entry = |entry: &Value| {
                let keys = entry.as_object().into_iter().flatten();
                NetworkFileEntry {
                    keys: keys
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect(),
                    remark: None,
                }
            };
            all.map(entry).collect()
        };
        NetworkFileDraft {
            switches: entries("switch"),
            hosts: entries("host"),
            links: entries("link"),
            traffic: entries("traffic"),
        }
    }

    /// The file as text.
    pub fn print(&self) -> String {
        let mut out = "# Written by netalytics network discover.\n".to_owned();
        let NetworkFileDraft {
            switches,
            hosts,
            links,
            traffic,
        } = self;
        for (kind, entries) in [
            ("switch", switches),
            ("host", hosts),
            ("link", links),
            ("traffic", traffic),
        ] {
            entries.iter().for_each(|entry| entry.print(kind, &mut out));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_round_trip() {
        let text = "[[host]]\nname = \"web 1\"\naddresses = [\"10.0.0.1\"]\nat = \"leaf1:3\"\ncores = 4.5\nmemory = \"1GiB\"\nvia = []\nspare = true\nmbps = 1000\n\
            [[switch]]\nname = \"leaf1\"\ntier = \"edge\"\n";
        let draft = NetworkFileDraft::read(text);
        assert_eq!(NetworkFileDraft::read(&draft.print()), draft);
        let host = draft.print();
        let host = host.split("[[host]]\n").nth(1).expect("a host");
        assert!(
            host.starts_with(
                "name = \"web 1\"\naddresses = [\"10.0.0.1\"]\nat = \"leaf1:3\"\nvia = []\n"
            ),
            "{host}"
        );
    }
}
