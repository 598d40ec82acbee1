//! Metadata of a file: the table, its version, the query, and the capture. Stored in Parquet's key-value metadata
//! under `netalytics.…`; values other than plain text are JSON.

use parquet::file::metadata::KeyValue;
use serde_json::{Value, json};
use tuple::{DataType, FieldId, RedactionRule, Schema, Unit};

/// The column of tuples with the event time of their release; not available in queries.
pub const WATERMARK: &str = "watermark";

/// The writer named in Parquet's own metadata.
pub(crate) const CREATED_BY: &str = concat!("netalytics ", env!("CARGO_PKG_VERSION"));

/// Version of the metadata and of the folder layout: docs/compatibility.md defines when it changes.
pub const FORMAT: u64 = 1;
const PREFIX: &str = "netalytics.";

/// The kind of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Tuples, which can be read back.
    Tuples,
    /// Results of a processor.
    Result,
}

/// Metadata of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileMetadata {
    /// Table name: the parsers, or the processor.
    pub table: String,
    /// Kind of the rows.
    pub kind: TableKind,
    /// The parsers of the tuples with their schema versions; several parsers are joined by `id`.
    pub parsers: Vec<(String, u16)>,
    /// The query.
    pub query: String,
    /// Version of the program.
    pub version: String,
    /// Run number, common to all files of a run.
    pub run: u64,
    /// SAMPLE: `all`, `auto`, or a fraction.
    pub sample: String,
    /// The seed of the flow sample.
    pub sample_seed: u64,
    /// The fingerprint of the redaction key; `None` if texts are not redacted.
    pub redacted: Option<u64>,
    /// The origin of the packets.
    pub capture: CaptureFacts,
}

impl FileMetadata {
    /// Metadata with only the table and kind set.
    #[must_use]
    pub fn of(table: &str, kind: TableKind) -> FileMetadata {
        FileMetadata {
            table: table.to_owned(),
            kind,
            parsers: Vec::new(),
            query: String::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            run: 0,
            sample: "all".into(),
            sample_seed: 0,
            redacted: None,
            capture: CaptureFacts::default(),
        }
    }
}

/// The origin of the packets, as known at the end of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureFacts {
    /// Files or interfaces.
    pub inputs: Vec<String>,
    /// The distinct links.
    pub links: Vec<CapturedLink>,
    /// Time of the first packet of the run, in nanoseconds since the epoch.
    pub first_ts: Option<i64>,
    /// Time of the latest packet.
    pub last_ts: Option<i64>,
    /// Captured TCP payload in bytes.
    pub seen_bytes: u64,
    /// TCP payload acknowledged but not captured, in bytes.
    pub unseen_bytes: u64,
    /// First and last nanosecond of the tuples that may be affected by a memory limit; `None` if no limit took
    /// effect.
    pub limited: Option<(i64, i64)>,
}

/// A link type with its capture length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedLink {
    /// LINKTYPE_ number.
    pub link_type: u16,
    /// Maximum captured bytes per packet; 0 is unlimited.
    pub snaplen: u32,
}

impl FileMetadata {
    /// The parsers of the tuples.
    pub(crate) fn parser_names(&self) -> String {
        let names: Vec<&str> = self.parsers.iter().map(|(name, _)| name.as_str()).collect();
        names.join("+")
    }

    /// Whether the file contains tuples, or parts of them, of this parser or join of parsers.
    pub(crate) fn is_of(&self, parser: &str) -> bool {
        self.kind == TableKind::Tuples && self.parser_names() == parser
    }

    /// Converts it to metadata, with descriptions of the `columns` of `schema` for other programs.
    #[must_use]
    pub(crate) fn to_metadata(&self, schema: &Schema, columns: &[FieldId]) -> Vec<KeyValue> {
        let pair = |key: &str, value: String| KeyValue::new(format!("{PREFIX}{key}"), value);
        let parsers: Vec<Value> = self
            .parsers
            .iter()
            .map(|(name, version)| json!({"name": name, "schema_version": version}))
            .collect();
        let links: Vec<Value> = self
            .capture
            .links
            .iter()
            .map(|l| json!({"link_type": l.link_type, "snaplen": l.snaplen}))
            .collect();
        let is_redacted = self.redacted.is_some();
        let columns: Vec<Value> = columns
            .iter()
            .map(|id| column(schema, *id, is_redacted))
            .collect();
        let mut list = vec![
            pair("format", FORMAT.to_string()),
            pair("table", self.table.clone()),
            pair(
                "kind",
                if self.kind == TableKind::Tuples {
                    "tuples"
                } else {
                    "result"
                }
                .into(),
            ),
            pair("parsers", Value::from(parsers).to_string()),
            pair("query", self.query.clone()),
            pair("version", self.version.clone()),
            pair("run", format!("{:016x}", self.run)),
            pair("sample", self.sample.clone()),
            pair("sample_seed", self.sample_seed.to_string()),
            pair("inputs", json!(self.capture.inputs).to_string()),
            pair("links", Value::from(links).to_string()),
            pair("seen_bytes", self.capture.seen_bytes.to_string()),
            pair("unseen_bytes", self.capture.unseen_bytes.to_string()),
            pair("columns", Value::from(columns).to_string()),
        ];
        list.extend(
            self.redacted
                .map(|name| pair("redacted", format!("{name:016x}"))),
        );
        let times = [
            ("first_ts", self.capture.first_ts),
            ("last_ts", self.capture.last_ts),
        ];
        let (from, to) = self.capture.limited.unzip();
        let times = times
            .into_iter()
            .chain([("limited_from", from), ("limited_to", to)]);
        list.extend(times.filter_map(|(key, ts)| Some(pair(key, ts?.to_string()))));
        list
    }

    /// Parses the output of [`FileMetadata::to_metadata`].
    ///
    /// # Errors
    /// A description of missing or invalid entries.
    pub(crate) fn of_metadata(list: &[KeyValue]) -> Result<FileMetadata, String> {
        let find = |key: &str| {
            let entry = list
                .iter()
                .find(|e| e.key.strip_prefix(PREFIX) == Some(key));
            entry.and_then(|e| e.value.as_deref())
        };
        let text = |key: &str| {
            find(key)
                .map(str::to_owned)
                .ok_or_else(|| format!("its metadata lacks {key}"))
        };
        let list = |key: &str| -> Result<Vec<Value>, String> {
            serde_json::from_str(&text(key)?).map_err(|_| format!("its metadata {key} is damaged"))
        };
        let format = find("format").ok_or("it was not written by netalytics record")?;
        if format.parse() != Ok(FORMAT) {
            return Err(format!(
                "it has format {format}; this program reads format {FORMAT}"
            ));
        }
        let parser = |v: &Value| {
            let version = u16::try_from(v["schema_version"].as_u64()?).ok()?;
            Some((v["name"].as_str()?.to_owned(), version))
        };
        let link = |v: &Value| {
            Some(CapturedLink {
                link_type: u16::try_from(v["link_type"].as_u64()?).ok()?,
                snaplen: u32::try_from(v["snaplen"].as_u64()?).ok()?,
            })
        };
        let time = |key: &str| find(key).and_then(|t| t.parse().ok());
        let number = |key: &str| find(key).and_then(|n| n.parse().ok()).unwrap_or(0);
        Ok(FileMetadata {
            table: text("table")?,
            kind: if text("kind")? == "tuples" {
                TableKind::Tuples
            } else {
                TableKind::Result
            },
            parsers: list("parsers")?.iter().filter_map(parser).collect(),
            query: text("query")?,
            version: text("version")?,
            run: u64::from_str_radix(&text("run")?, 16)
                .map_err(|_| "its metadata run is damaged")?,
            sample: text("sample")?,
            sample_seed: number("sample_seed"),
            redacted: find("redacted").and_then(|name| u64::from_str_radix(name, 16).ok()),
            capture: CaptureFacts {
                inputs: list("inputs")?
                    .iter()
                    .filter_map(|v| Some(v.as_str()?.to_owned()))
                    .collect(),
                links: list("links")?.iter().filter_map(link).collect(),
                first_ts: time("first_ts"),
                last_ts: time("last_ts"),
                seen_bytes: number("seen_bytes"),
                unseen_bytes: number("unseen_bytes"),
                limited: time("limited_from").zip(time("limited_to")),
            },
        })
    }
}

fn column(schema: &Schema, id: FieldId, is_redacted: bool) -> Value {
    let field = schema.field(id);
    let data_type = match field.data_type {
        DataType::Bool => "bool",
        DataType::U64 => "u64",
        DataType::I64 => "i64",
        DataType::F64 => "f64",
        DataType::Text => "text",
        DataType::Ip => "ip",
        DataType::Hashes => "hashes",
        DataType::Json => "json",
    };
    let unit = match field.unit {
        Unit::None => "none",
        Unit::Nanoseconds => "nanoseconds",
        Unit::EpochNanoseconds => "nanoseconds since the epoch",
        Unit::Bytes => "bytes",
        Unit::PerSecond => "per second",
        Unit::BytesPerSecond => "bytes per second",
        Unit::Fraction => "fraction",
        Unit::Id => "id",
    };
    let mut column = json!({"name": field.name, "type": data_type, "unit": unit, "doc": field.doc});
    match &field.redact {
        RedactionRule::Fold(fold) if is_redacted => column["redacted"] = fold.name.into(),
        RedactionRule::Where(_, folds) if is_redacted => {
            column["redacted"] = folds.first().map(|(_, fold)| fold.name).into();
        }
        _ => {}
    }
    column
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn head(table: &str) -> FileMetadata {
        FileMetadata {
            table: table.into(),
            kind: TableKind::Tuples,
            parsers: vec![(table.into(), 1)],
            query: "PARSE \"x\"".into(),
            version: "0.1.0".into(),
            run: 0xfeed_0000_0000_0001,
            sample: "0.1".into(),
            sample_seed: 3,
            redacted: Some(0xabcd),
            capture: CaptureFacts {
                inputs: vec!["a.pcap".into(), "b \"c\".pcap".into()],
                links: vec![CapturedLink {
                    link_type: 1,
                    snaplen: 262_144,
                }],
                first_ts: Some(-5),
                last_ts: None,
                seen_bytes: 1000,
                unseen_bytes: 7,
                limited: Some((-3, 9)),
            },
        }
    }

    #[test]
    fn reads_back() {
        let schema = Schema::of_parser("http", 1, "", &[], None, None);
        let columns: Vec<_> = schema.ids().collect();
        let metadata = head("http").to_metadata(&schema, &columns);
        assert_eq!(FileMetadata::of_metadata(&metadata), Ok(head("http")));
    }

    #[test]
    fn foreign_files_are_reported() {
        assert_eq!(
            FileMetadata::of_metadata(&[]).unwrap_err(),
            "it was not written by netalytics record"
        );
        let other = KeyValue::new("netalytics.format".into(), "2".to_owned());
        assert!(
            FileMetadata::of_metadata(&[other])
                .unwrap_err()
                .contains("format 2")
        );
    }

    /// Parses metadata without one key.
    fn without(key: &str) -> Result<FileMetadata, String> {
        let schema = Schema::of_parser("http", 1, "", &[], None, None);
        let mut metadata = head("http").to_metadata(&schema, &schema.ids().collect::<Vec<_>>());
        metadata.retain(|entry| entry.key != format!("{PREFIX}{key}"));
        FileMetadata::of_metadata(&metadata)
    }

    #[test]
    fn missing_keys_are_named() {
        for key in [
            "table", "kind", "parsers", "query", "version", "run", "sample", "inputs", "links",
        ] {
            assert_eq!(without(key), Err(format!("its metadata lacks {key}")));
        }
        assert_eq!(
            without("format"),
            Err("it was not written by netalytics record".into())
        );
    }

    #[test]
    fn keys_missing_in_older_files_have_defaults() {
        let whole = head("http");
        assert_eq!(
            without("sample_seed"),
            Ok(FileMetadata {
                sample_seed: 0,
                ..whole.clone()
            })
        );
        assert_eq!(
            without("redacted"),
            Ok(FileMetadata {
                redacted: None,
                ..whole.clone()
            })
        );
        let capture = CaptureFacts {
            first_ts: None,
            ..whole.capture.clone()
        };
        assert_eq!(
            without("first_ts"),
            Ok(FileMetadata {
                capture,
                ..whole.clone()
            })
        );
        let capture = CaptureFacts {
            unseen_bytes: 0,
            ..whole.capture.clone()
        };
        assert_eq!(
            without("unseen_bytes"),
            Ok(FileMetadata {
                capture,
                ..whole.clone()
            })
        );
        let capture = CaptureFacts {
            limited: None,
            ..whole.capture.clone()
        };
        assert_eq!(without("limited_to"), Ok(FileMetadata { capture, ..whole }));
    }
}
