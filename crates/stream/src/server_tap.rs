//! Observations of requests by a tap near the servers, joined to tuples of a tap near the clients by the endpoints of
//! the connection and the sequence number of the request's first byte. Durations are subtracted, never timestamps:
//! the clocks of two machines may differ. Bounded; omitted requests are counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef, Int64Array};
use tuple::{Batch, TapColumns, common};

/// Approximate memory per request.
const REQUEST_BYTES: usize = 128;

/// Requests seen by the server's tap. Clones share the state.
#[derive(Clone, Debug)]
pub struct ServerTap(Arc<TapSightings>);

impl PartialEq for ServerTap {
    fn eq(&self, other: &ServerTap) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The requests seen by a tap near the servers; to be completed before lookups.
#[derive(Debug, Default)]
pub struct TapSightings {
    requests: HashMap<TapRequest, TapSighting>,
    count: u64,
    max: usize,
    unkept: u64,
    joined: AtomicU64,
    client_only: AtomicU64,
    /// Requests with a longer response time at the server's tap.
    negative: AtomicU64,
}

/// Number of requests by tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Seen by both taps.
    pub joined: u64,
    /// Seen only by the client's tap.
    pub client_only: u64,
    /// Seen only by the server's tap.
    pub server_only: u64,
    /// Seen by the server's tap, but omitted because of the memory limit.
    pub unkept: u64,
}

/// The connection of a request and its sequence number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TapRequest {
    client: ([u8; 16], u64),
    server: ([u8; 16], u64),
    first_byte: u64,
}

/// Response times of a request, in order; a request with several operations has several tuples.
#[derive(Debug)]
struct TapSighting {
    first: Option<i64>,
    more: Vec<Option<i64>>,
    /// Number of lookups. All tuples of a connection belong to one worker.
    asked: AtomicU32,
}

impl TapSightings {
    /// An empty set with a memory limit of `bytes_max`.
    #[must_use]
    pub fn new(bytes_max: usize) -> TapSightings {
        TapSightings {
            max: bytes_max / REQUEST_BYTES,
            ..TapSightings::default()
        }
    }

    /// Adds the requests in a batch of tuples of the tap near the servers.
    pub fn add(&mut self, batch: &Batch) {
        let Some(columns) = TapRequestColumns::of(batch) else {
            return;
        };
        for row in 0..batch.rows() {
            let Some(request) = columns.request(row) else {
                continue;
            };
            if self.count >= self.max as u64 {
                self.unkept += 1;
                continue;
            }
            self.count += 1;
            let time = columns.response_time(row);
            match self.requests.entry(request) {
                Entry::Vacant(entry) => {
                    entry.insert(TapSighting {
                        first: time,
                        more: Vec::new(),
                        asked: AtomicU32::new(0),
                    });
                }
                Entry::Occupied(mut entry) => entry.get_mut().more.push(time),
            }
        }
    }

    /// Completes the set.
    #[must_use]
    pub fn done(self) -> ServerTap {
        ServerTap(Arc::new(self))
    }
}

impl ServerTap {
    /// Adds the measurements of both taps to a batch of the tap near the clients; `None` if the query does not use
    /// them.
    #[must_use]
    pub fn complete(&self, batch: &Batch) -> Option<Batch> {
        let columns = TapRequestColumns::of(batch)?;
        let found: Vec<ServerResponseTime> = (0..batch.rows())
            .map(|row| self.find(&columns, row))
            .collect();
        let is_negative = |row: &usize| columns.between(*row, &found).is_some_and(|ns| ns < 0);
        let negative = (0..batch.rows()).filter(is_negative).count() as u64;
        self.0.negative.fetch_add(negative, Ordering::Relaxed);
        Some(columns.complete(&found))
    }

    /// Number of requests whose `tap.network_time` is negative, so far.
    #[must_use]
    pub fn negative(&self) -> u64 {
        self.0.negative.load(Ordering::Relaxed)
    }

    /// The response time of a request at the server's tap, if seen there; the response itself may be missing.
    fn find(&self, columns: &TapRequestColumns<'_>, row: usize) -> ServerResponseTime {
        let sighting = columns
            .request(row)
            .and_then(|request| self.0.requests.get(&request));
        let found = sighting.and_then(|sighting| {
            let n = sighting.asked.fetch_add(1, Ordering::Relaxed) as usize;
            n.checked_sub(1)
                .map_or(Some(sighting.first), |n| sighting.more.get(n).copied())
        });
        let count = if found.is_some() {
            &self.0.joined
        } else {
            &self.0.client_only
        };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// The number of requests by tap, so far.
    #[must_use]
    pub fn counts(&self) -> TapCounts {
        let joined = self.0.joined.load(Ordering::Relaxed);
        TapCounts {
            joined,
            client_only: self.0.client_only.load(Ordering::Relaxed),
            server_only: self.0.count - joined,
            unkept: self.0.unkept,
        }
    }
}

/// Outer `None`: the request was not seen by the server's tap. Inner `None`: its response was not seen.
pub(crate) type ServerResponseTime = Option<Option<i64>>;

/// The columns that identify a request.
pub(crate) struct TapRequestColumns<'b> {
    batch: &'b Batch,
    pub taps: TapColumns,
}

impl TapRequestColumns<'_> {
    pub fn of(batch: &Batch) -> Option<TapRequestColumns<'_>> {
        let taps = TapColumns::of(batch.schema())?;
        let needed = [
            common::CLIENT_IP,
            common::CLIENT_PORT,
            common::SERVER_IP,
            common::SERVER_PORT,
            taps.request,
            batch.schema().measure?,
        ];
        needed
            .iter()
            .all(|id| batch.column(*id).is_some())
            .then_some(TapRequestColumns { batch, taps })
    }

    /// The batch with the measurements of both taps; `found` contains those of the server's tap by row.
    pub fn complete(&self, found: &[ServerResponseTime]) -> Batch {
        let batch = self.batch;
        let client_time = |row: usize| self.response_time(row);
        let server_time = |row: usize| found[row].flatten();
        let rows = || 0..batch.rows();
        let mut seen = StringBuilder::new();
        found
            .iter()
            .for_each(|found| seen.append_value(if found.is_some() { "both" } else { "client" }));
        let TapColumns {
            seen: seen_at,
            client_time: client_at,
            server_time: server_at,
            network_time,
            ..
        } = self.taps;
        let mut all: Vec<Option<ArrayRef>> = batch
            .schema()
            .ids()
            .map(|id| batch.column(id).cloned())
            .collect();
        let mut put = |at: tuple::FieldId, array: ArrayRef| all[usize::from(at.0)] = Some(array);
        put(seen_at, Arc::new(seen.finish()));
        put(
            client_at,
            Arc::new(rows().map(client_time).collect::<Int64Array>()),
        );
        put(
            server_at,
            Arc::new(rows().map(server_time).collect::<Int64Array>()),
        );
        put(
            network_time,
            Arc::new(
                rows()
                    .map(|row| self.between(row, found))
                    .collect::<Int64Array>(),
            ),
        );
        Batch::new(batch.schema().clone(), batch.rows(), all)
    }

    /// The time between the taps, if both have seen the response.
    fn between(&self, row: usize, found: &[ServerResponseTime]) -> Option<i64> {
        self.response_time(row)?.checked_sub(found[row].flatten()?)
    }

    /// The request in a row; `None` if its first byte was not captured.
    pub fn request(&self, row: usize) -> Option<TapRequest> {
        let first_bytes = self.batch.u64(self.taps.request);
        let end = |ip, port| {
            let address = <[u8; 16]>::try_from(self.batch.ip(ip).value(row)).unwrap_or_default();
            (address, self.batch.u64(port).value(row))
        };
        first_bytes.is_valid(row).then(|| TapRequest {
            client: end(common::CLIENT_IP, common::CLIENT_PORT),
            server: end(common::SERVER_IP, common::SERVER_PORT),
            first_byte: first_bytes.value(row),
        })
    }

    pub fn response_time(&self, row: usize) -> Option<i64> {
        let times = self.batch.i64(self.batch.schema().measure?);
        times.is_valid(row).then(|| times.value(row))
    }
}

#[cfg(test)]
mod tests {
    use tuple::{DataType, Field, FieldId, Schema, SchemaFacts, TAPS, TupleWriter, Unit};

    use super::*;

    const FACTS: SchemaFacts = SchemaFacts {
        families: &[TAPS],
        ..SchemaFacts::NONE
    };

    /// Requests: client port, first byte, and response time.
    fn batch(rows: &[(u64, Option<u64>, Option<i64>)]) -> Batch {
        let time = FieldId(common::FIELDS.len() as u16);
        let own = [Field::new(
            "response_time_ns",
            DataType::I64,
            Unit::Nanoseconds,
            "",
        )];
        let mut schema = Schema {
            facts: &FACTS,
            ..Schema::of_parser("t", 1, "", &own, Some(time), None)
        };
        schema.add_member("tap.seen");
        let taps = TapColumns::of(&schema).expect("they are there");
        let all: Vec<FieldId> = schema.ids().collect();
        let mut writer = TupleWriter::new(Arc::new(schema), &all);
        for (port, first_byte, response_time) in rows {
            writer.ip(common::CLIENT_IP, &[1; 16]);
            writer.u64(common::CLIENT_PORT, *port);
            writer.ip(common::SERVER_IP, &[2; 16]);
            writer.u64(common::SERVER_PORT, 80);
            first_byte
                .iter()
                .for_each(|seq| writer.u64(taps.request, *seq));
            response_time.iter().for_each(|ns| writer.i64(time, *ns));
            writer.end_row();
        }
        writer.finish()
    }

    type Rows<'r> = &'r [(u64, Option<u64>, Option<i64>)];

    /// Checks the taps that saw the client's requests, and the time between the taps.
    fn check(
        server: Rows<'_>,
        client: Rows<'_>,
        expected: &[(&str, Option<i64>)],
        counts: [u64; 3],
    ) {
        let mut sightings = TapSightings::new(1 << 20);
        sightings.add(&batch(server));
        let tap = sightings.done();
        let batch = tap.complete(&batch(client)).expect("it is asked for");
        let taps = TapColumns::of(batch.schema()).expect("they are there");
        let seen = batch.text(taps.seen);
        let between = batch.i64(taps.network_time);
        let time = |row| between.is_valid(row).then(|| between.value(row));
        let found: Vec<_> = (0..batch.rows())
            .map(|row| (seen.value(row), time(row)))
            .collect();
        assert_eq!(found, expected, "{client:?} at {server:?}");
        let negative = expected
            .iter()
            .filter(|(_, ns)| ns.is_some_and(|ns| ns < 0))
            .count();
        assert_eq!(tap.negative(), negative as u64);
        let TapCounts {
            joined,
            client_only,
            server_only,
            unkept,
        } = tap.counts();
        assert_eq!(([joined, client_only, server_only], unkept), (counts, 0));
    }

    #[test]
    fn requests_are_found_again() {
        let wrapped = u64::from(u32::MAX);
        // Pipelined requests; a sequence number that wraps; an equal one on another connection.
        check(
            &[
                (1, Some(10), Some(5)),
                (1, Some(50), Some(6)),
                (1, Some(wrapped), Some(7)),
                (2, Some(10), Some(8)),
            ],
            &[
                (1, Some(50), Some(26)),
                (1, Some(10), Some(15)),
                (1, Some(wrapped), Some(7)),
                (2, Some(10), Some(9)),
            ],
            &[
                ("both", Some(20)),
                ("both", Some(10)),
                ("both", Some(0)),
                ("both", Some(1)),
            ],
            [4, 0, 0],
        );
        // Rewritten by NAT; lost before the server; first byte not captured; requests of other clients.
        check(
            &[(7, Some(10), Some(5)), (1, None, Some(5))],
            &[
                (1, Some(10), Some(15)),
                (1, Some(90), None),
                (1, None, Some(15)),
            ],
            &[("client", None), ("client", None), ("client", None)],
            [0, 3, 1],
        );
        // The response was lost at one tap or the other.
        check(
            &[(1, Some(10), Some(5)), (1, Some(20), None)],
            &[(1, Some(10), None), (1, Some(20), Some(9))],
            &[("both", None), ("both", None)],
            [2, 0, 0],
        );
        // A request with three operations has three tuples; the third has no counterpart.
        check(
            &[(1, Some(10), Some(5)), (1, Some(10), Some(6))],
            &[
                (1, Some(10), Some(10)),
                (1, Some(10), Some(20)),
                (1, Some(10), Some(30)),
            ],
            &[("both", Some(5)), ("both", Some(14)), ("client", None)],
            [2, 1, 0],
        );
    }

    #[test]
    fn sightings_are_bounded_in_memory() {
        let mut sightings = TapSightings::new(2 * REQUEST_BYTES);
        sightings.add(&batch(&[
            (1, Some(1), None),
            (1, Some(2), None),
            (1, Some(3), None),
        ]));
        let counts = sightings.done().counts();
        assert_eq!(
            counts,
            TapCounts {
                server_only: 2,
                unkept: 1,
                ..TapCounts::default()
            }
        );
    }
}
