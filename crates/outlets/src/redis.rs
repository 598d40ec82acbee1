//! Rows as Redis commands. A processor's rows become sorted sets: `PREFIX:PROCESSOR` has the newest window, and with
//! `w=` `PREFIX:PROCESSOR:START` each window by its start in seconds, for a limited time. Tuples become entries of the
//! stream `PREFIX:PARSER`.

use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, Pipeline};
use sinks::ResultHead;
use sinks::cells::ColumnCells;
use tuple::{Batch, DataType, FieldId};

use crate::address::{OutletAddress, OutletScheme};
use crate::net;
use crate::points::number;
use crate::queue::OutletItem;
use crate::windows::{OpenWindows, RowWindow};
use crate::worker::{DeliveryFault, MessageBody, OutletMessage, OutletTransport, RowMapping};

/// Maximum commands per message.
const COMMANDS_MAX: usize = 500;

/// Names and retention of keys.
#[derive(Clone, Debug)]
pub struct RedisKeys {
    /// Prefix.
    pub prefix: String,
    /// Approximate maximum entries of a stream.
    pub entries_max: u64,
    /// Lifetime of a window's set, in seconds.
    pub seconds: u64,
}

/// See the module documentation.
pub struct RedisMapping {
    keys: RedisKeys,
    windows: OpenWindows,
    number: u64,
}

impl RedisMapping {
    /// Uses these keys.
    pub fn new(keys: RedisKeys) -> RedisMapping {
        RedisMapping {
            keys,
            windows: OpenWindows::default(),
            number: 0,
        }
    }

    fn make(&mut self, windows: Vec<RowWindow>, out: &mut Vec<OutletMessage>) {
        for window in windows {
            let Some(head) = self.windows.head(window.result) else {
                continue;
            };
            let made = match &head.processor {
                Some(processor) => vec![set(&self.keys, processor, head, &window)],
                None => entries(&self.keys, head, &window),
            };
            for (commands, rows) in made {
                self.number += 1;
                out.push(OutletMessage {
                    body: MessageBody::Commands(commands),
                    rows,
                    number: self.number,
                });
            }
        }
    }
}

impl RowMapping for RedisMapping {
    fn take(&mut self, item: OutletItem, out: &mut Vec<OutletMessage>) {
        let windows = self.windows.take(item);
        self.make(windows, out);
    }

    fn finish(&mut self, out: &mut Vec<OutletMessage>) {
        let windows = self.windows.finish();
        self.make(windows, out);
    }
}

/// Writes the set of a window in one transaction: readers see all or nothing, and a retry changes nothing.
fn set(
    keys: &RedisKeys,
    processor: &str,
    head: &ResultHead,
    window: &RowWindow,
) -> (Pipeline, u64) {
    let mut members: Vec<(f64, String)> = Vec::new();
    for batch in &window.batches {
        let (key, score) = columns(head, batch);
        let cells = |id: &FieldId| ColumnCells::of(batch, *id);
        let key: Vec<ColumnCells<'_>> = key.iter().filter_map(cells).collect();
        let Some(score) = score.as_ref().and_then(cells) else {
            continue;
        };
        let scored = |row| Some((number(&score, row)?, member(&key, row)));
        members.extend((0..batch.rows()).filter_map(scored));
    }
    let newest = format!("{}:{processor}", keys.prefix);
    let of_window = window
        .bounds
        .map(|(start, _)| format!("{newest}:{}", start.div_euclid(1_000_000_000)));
    let mut commands = redis::pipe();
    commands.atomic();
    for key in [Some(&newest), of_window.as_ref()].into_iter().flatten() {
        commands.cmd("DEL").arg(key);
        for (score, member) in &members {
            commands.cmd("ZADD").arg(key).arg(*score).arg(member);
        }
    }
    if let Some(key) = of_window {
        commands.cmd("EXPIRE").arg(key).arg(keys.seconds);
    }
    (commands, window.rows())
}

/// Group columns, and the column of the rank: the first aggregate.
fn columns(head: &ResultHead, batch: &Batch) -> (Vec<FieldId>, Option<FieldId>) {
    let schema = batch.schema();
    let first = if schema
        .fields
        .first()
        .is_some_and(|field| field.name == "window_start")
    {
        2
    } else {
        0
    };
    let mut key = Vec::new();
    let mut score = None;
    for id in schema.ids().skip(first) {
        let place = usize::from(id.0);
        let field = schema.field(id);
        let is_number = matches!(
            field.data_type,
            DataType::U64 | DataType::I64 | DataType::F64
        );
        if field.name == sinks::AGENTS_MISSING {
            continue;
        }
        if place < first + head.keys
            || (head.keys == 0 && !is_number && field.data_type == DataType::Text)
        {
            key.push(id);
        } else if is_number && field.name != "rank" && !is_end_of_rank(&field.name) {
            score = score.or(Some(id));
        }
    }
    (key, score)
}

fn is_end_of_rank(name: &str) -> bool {
    matches!(name, "rank_low" | "rank_high" | "error_bound" | "lost")
}

/// Name of a group: its text, or a JSON array of several texts.
fn member(key: &[ColumnCells<'_>], row: usize) -> String {
    let texts: Vec<Option<String>> = key.iter().map(|cells| text(cells, row)).collect();
    match texts.as_slice() {
        [] => "all".into(),
        [one] => one.clone().unwrap_or_default(),
        several => serde_json::json!(several).to_string(),
    }
}

/// An entry per tuple, with its nonnull fields.
fn entries(keys: &RedisKeys, head: &ResultHead, window: &RowWindow) -> Vec<(Pipeline, u64)> {
    let key = format!("{}:{}", keys.prefix, head.parsers.join(","));
    let mut made = Vec::new();
    for batch in &window.batches {
        let columns: Vec<_> = batch
            .present()
            .filter_map(|id| Some((id, ColumnCells::of(batch, id)?)))
            .collect();
        for start in (0..batch.rows()).step_by(COMMANDS_MAX) {
            let rows = start..batch.rows().min(start + COMMANDS_MAX);
            let count = rows.len() as u64;
            let mut commands = redis::pipe();
            commands.atomic();
            for row in rows {
                let command = commands
                    .cmd("XADD")
                    .arg(&key)
                    .arg("MAXLEN")
                    .arg("~")
                    .arg(keys.entries_max)
                    .arg("*");
                for (id, cells) in &columns {
                    if let Some(text) = text(cells, row) {
                        command.arg(&*batch.schema().field(*id).name).arg(text);
                    }
                }
            }
            made.push((commands, count));
        }
    }
    made
}

fn text(cells: &ColumnCells<'_>, row: usize) -> Option<String> {
    let mut text = Vec::new();
    (!cells.is_null(row)).then(|| cells.push(row, &mut text))?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Sends commands to a server.
pub struct RedisServer {
    client: redis::Client,
    connection: Option<redis::Connection>,
}

impl RedisServer {
    /// The server at this address, whose path is the number of a database.
    ///
    /// # Errors
    /// A message.
    pub fn new(address: &OutletAddress) -> Result<RedisServer, String> {
        let path = address.path.reveal().trim_matches('/');
        let database: Option<i64> = if path.is_empty() {
            Some(0)
        } else {
            path.parse().ok().filter(|n| *n >= 0)
        };
        let database = database.ok_or("the path must be the number of a database, as in /0")?;
        let mut settings = redis::RedisConnectionInfo::default()
            .set_db(database)
            .set_skip_set_lib_name();
        if let Some(user) = &address.user {
            settings = settings.set_username(user);
        }
        if let Some(secret) = &address.secret {
            settings = settings.set_password(secret.reveal());
        }
        let host = address.host.clone();
        let port = address.port;
        let to = match address.scheme {
            OutletScheme::RedisTls => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            _ => ConnectionAddr::Tcp(host, port),
        };
        let info = to
            .into_connection_info()
            .map_err(|error| error.to_string())?
            .set_redis_settings(settings);
        let client = match (address.scheme, &address.ca_file) {
            (OutletScheme::RedisTls, Some(path)) => {
                let pem =
                    std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
                let certificates = redis::TlsCertificates {
                    client_tls: None,
                    root_cert: Some(pem),
                };
                redis::Client::build_with_tls(info, certificates)
            }
            _ => redis::Client::open(info),
        };
        Ok(RedisServer {
            client: client.map_err(|error| error.to_string())?,
            connection: None,
        })
    }

    fn try_send(&mut self, commands: &Pipeline, patience: Duration) -> redis::RedisResult<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => self
                .connection
                .insert(self.client.get_connection_with_timeout(patience)?),
        };
        connection.set_write_timeout(Some(patience))?;
        connection.set_read_timeout(Some(patience))?;
        commands.exec(connection)
    }
}

/// Error codes of permanent failures.
const FINAL: [&str; 6] = [
    "ERR",
    "EXECABORT",
    "NOAUTH",
    "NOPERM",
    "WRONGPASS",
    "WRONGTYPE",
];

impl OutletTransport for RedisServer {
    fn send(&mut self, message: &OutletMessage, patience: Duration) -> Result<(), DeliveryFault> {
        let MessageBody::Commands(commands) = &message.body else {
            return Ok(());
        };
        self.try_send(commands, patience).map_err(|error| {
            let is_unknown_here = error.kind() == redis::ErrorKind::AuthenticationFailed;
            let code = error.code().map(String::from);
            let text = error.to_string();
            // The first failed command of a transaction is sufficient.
            let first = error
                .into_server_errors()
                .and_then(|errors| errors.first().map(|(_, error)| error.clone()));
            let code = first
                .as_ref()
                .map(|error| error.code().to_owned())
                .or(code)
                .unwrap_or_default();
            let text = first.map_or(text, |error| error.to_string());
            if is_unknown_here || FINAL.contains(&code.as_str()) {
                return DeliveryFault::Final(text);
            }
            self.connection = None;
            DeliveryFault::Passing(net::in_words(text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{head, result};

    fn check(items: Vec<OutletItem>, expected: &[(&str, u64)]) {
        let keys = RedisKeys {
            prefix: "n".into(),
            entries_max: 7,
            seconds: 60,
        };
        let mut commands = RedisMapping::new(keys);
        let mut made = Vec::new();
        items
            .into_iter()
            .for_each(|item| commands.take(item, &mut made));
        commands.finish(&mut made);
        let text = |message: &OutletMessage| {
            let MessageBody::Commands(commands) = &message.body else {
                panic!("commands")
            };
            let words = |command: &redis::Cmd| {
                let words = command.args_iter().map(|arg| match arg {
                    redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                    _ => "?".into(),
                });
                words.collect::<Vec<_>>().join(" ")
            };
            commands
                .cmd_iter()
                .map(words)
                .collect::<Vec<_>>()
                .join("; ")
        };
        let made: Vec<_> = made
            .iter()
            .map(|message| (text(message), message.rows))
            .collect();
        let made: Vec<_> = made
            .iter()
            .map(|(text, rows)| (text.as_str(), *rows))
            .collect();
        assert_eq!(made, expected);
    }

    #[test]
    fn windows_are_sets_and_tuples_are_entries() {
        let rows = result(&[(0, "/a", 2), (0, "/b", 1), (10, "/b", 3)]);
        check(
            vec![
                OutletItem::Heads([head()].into()),
                OutletItem::Rows(0, rows.clone()),
            ],
            &[
                (
                    "DEL n:group-count; ZADD n:group-count 2.0 /a; ZADD n:group-count 1.0 /b; DEL n:group-count:0; \
                     ZADD n:group-count:0 2.0 /a; ZADD n:group-count:0 1.0 /b; EXPIRE n:group-count:0 60",
                    2,
                ),
                (
                    "DEL n:group-count; ZADD n:group-count 3.0 /b; DEL n:group-count:10; ZADD n:group-count:10 3.0 /b; \
                     EXPIRE n:group-count:10 60",
                    1,
                ),
            ],
        );
        let tuples = ResultHead {
            processor: None,
            ..head()
        };
        check(
            vec![
                OutletItem::Heads([tuples].into()),
                OutletItem::Rows(0, rows.slice(2, 1)),
            ],
            &[(
                "XADD n:http MAXLEN ~ 7 * window_start 10000000000 window_end 20000000000 url_template /b count 3",
                1,
            )],
        );
    }
}
