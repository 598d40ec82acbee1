//! The transactions of a whole capture, and their packets.

use std::collections::{HashMap, HashSet};

use wire::Endpoint;

use crate::{ObservedTuple, PacketRecording};

/// The transactions of a recording.
pub struct GroundTruth<'a> {
    pub(crate) recording: &'a PacketRecording,
    pub(crate) transactions: Vec<TrueTransaction>,
    /// By connection and packet of the first byte.
    pub(crate) by_request: HashMap<PacketKey, Vec<usize>>,
    pub(crate) by_response: HashMap<PacketKey, Vec<usize>>,
    /// By connection, ordered by time.
    pub(crate) by_connection: HashMap<EndpointPair, Vec<usize>>,
    /// Packets with parts of several messages.
    pub(crate) shared: HashSet<usize>,
}

/// Client and server.
pub type EndpointPair = (Endpoint, Endpoint);
/// Client, server, and packet.
pub type PacketKey = (Endpoint, Endpoint, usize);

/// A transaction.
#[derive(Clone, Debug)]
pub struct TrueTransaction {
    /// Observed values.
    pub told: ObservedTuple,
    /// Packets of the request.
    pub request: Option<PacketSpan>,
    /// Packets of the response.
    pub response: Option<PacketSpan>,
    /// Behavior of its client.
    pub client: ClientBehavior,
}

/// Behavior of a connection's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientBehavior {
    /// Sends the next request after the response.
    Waits,
    /// Sends several requests at once, at least once.
    Pipelines,
}

/// The packets of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketSpan {
    /// The packet with its first byte.
    pub first: usize,
    /// The packet with its last byte.
    pub last: usize,
    /// Whether `last` is known.
    pub whole: bool,
}

impl TrueTransaction {
    /// Whether the transaction is counted: it was seen completely.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.told.asked && self.told.is_exact()
    }
}

impl GroundTruth<'_> {
    /// The transactions of a recording, from the output of `parser` for all packets.
    #[must_use]
    pub fn of<'a>(recording: &'a PacketRecording, parser: &str) -> GroundTruth<'a> {
        GroundTruth::of_observed(recording, recording.play(&recording.whole(), parser))
    }

    /// The transactions of a recording as reported by another program.
    #[must_use]
    pub fn of_observed(recording: &PacketRecording, told: Vec<ObservedTuple>) -> GroundTruth<'_> {
        let mut transactions: Vec<TrueTransaction> =
            told.into_iter().map(|t| placed(t, recording)).collect();
        let mut by_connection = HashMap::<EndpointPair, Vec<usize>>::new();
        for (i, t) in transactions.iter().enumerate() {
            by_connection
                .entry((t.told.client, t.told.server))
                .or_default()
                .push(i);
        }
        for connection in by_connection.values_mut() {
            connection.sort_by_key(|i| transactions[*i].told.ts);
            if pipelines(connection, &transactions) {
                connection
                    .iter()
                    .for_each(|i| transactions[*i].client = ClientBehavior::Pipelines);
            }
        }
        place_overlapping(&mut transactions, recording);
        let mut by_request = HashMap::<PacketKey, Vec<_>>::new();
        let mut by_response = HashMap::<PacketKey, Vec<_>>::new();
        let mut touched = HashSet::new();
        let mut shared = HashSet::new();
        for (i, t) in transactions.iter().enumerate() {
            let at = |span: PacketSpan| (t.told.client, t.told.server, span.first);
            if let Some(request) = t.request {
                by_request.entry(at(request)).or_default().push(i);
            }
            if let Some(response) = t.response {
                by_response.entry(at(response)).or_default().push(i);
            }
            for span in [t.request, t.response].into_iter().flatten() {
                let ends = [
                    Some(span.first),
                    Some(span.last).filter(|last| *last != span.first),
                ];
                shared.extend(
                    ends.into_iter()
                        .flatten()
                        .filter(|packet| !touched.insert(*packet)),
                );
            }
        }
        GroundTruth {
            recording,
            transactions,
            by_request,
            by_response,
            by_connection,
            shared,
        }
    }

    /// All servers.
    #[must_use]
    pub fn servers(&self) -> HashSet<Endpoint> {
        self.transactions.iter().map(|t| t.told.server).collect()
    }

    /// Number of counted transactions, and of those with an unknown first packet of the response.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let counted = || self.transactions.iter().filter(|t| t.counts());
        let unknown = |t: &&TrueTransaction| t.told.response_time.is_some() && t.response.is_none();
        (counted().count(), counted().filter(unknown).count())
    }
}

/// Locates responses that began before their request was complete: the first packet of the server after the start of
/// the request, unless it belongs to another transaction.
fn place_overlapping(transactions: &mut [TrueTransaction], recording: &PacketRecording) {
    let taken: HashSet<usize> = transactions
        .iter()
        .filter_map(|t| Some(t.response?.first))
        .collect();
    let mut said: HashMap<EndpointPair, Vec<usize>> = HashMap::new();
    for packet in (0..recording.len()).filter(|p| recording.carried(*p).is_some_and(|c| c.len > 0))
    {
        if let Some((server, client)) = recording.ends(packet) {
            said.entry((client, server)).or_default().push(packet);
        }
    }
    // There is a response, but its time is unknown.
    let unplaced = |t: &&mut TrueTransaction| {
        t.response.is_none() && t.told.asked && t.told.transfer_time.is_some()
    };
    for t in transactions.iter_mut().filter(unplaced) {
        let Some(request) = t.request else {
            continue;
        };
        let Some(said) = said.get(&(t.told.client, t.told.server)) else {
            continue;
        };
        let next = said.partition_point(|packet| *packet < request.first);
        if let Some(first) = said
            .get(next)
            .copied()
            .filter(|packet| !taken.contains(packet))
        {
            t.response = Some(PacketSpan {
                first,
                last: first,
                whole: false,
            });
        }
    }
}

/// Whether a client sent a request before the previous response.
fn pipelines(connection: &[usize], transactions: &[TrueTransaction]) -> bool {
    let mut answered = i64::MIN;
    let mut asked = i64::MIN;
    for t in connection
        .iter()
        .map(|i| &transactions[*i])
        .filter(|t| t.told.asked)
    {
        // Several tuples of one request begin together.
        if t.told.ts > asked && t.told.ts < answered {
            return true;
        }
        asked = t.told.ts;
        answered = answered.max(t.told.ts_end);
    }
    // Requests in one packet with different responses.
    let several = |pair: &[usize]| {
        let a = &transactions[pair[0]];
        let b = &transactions[pair[1]];
        a.request.is_some() && a.request == b.request && a.response != b.response
    };
    connection.windows(2).any(several)
}

/// Locates the packets of a transaction in the whole recording.
fn placed(told: ObservedTuple, recording: &PacketRecording) -> TrueTransaction {
    let client = told.client;
    let server = told.server;
    let mut transaction = TrueTransaction {
        request: None,
        response: None,
        client: ClientBehavior::Waits,
        told,
    };
    let told = &transaction.told;
    if !told.asked {
        transaction.response = recording.at(told.ts, server, client).map(|first| {
            let last = told
                .transfer_time
                .and_then(|t| recording.at(told.ts + t, server, client));
            PacketSpan {
                first,
                last: last.unwrap_or(first),
                whole: last.is_some(),
            }
        });
        return transaction;
    }
    let Some(first) = recording.at(told.ts, client, server) else {
        return transaction;
    };
    transaction.request = Some(PacketSpan {
        first,
        last: first,
        whole: false,
    });
    let Some(response_time) = told.response_time else {
        return transaction;
    };
    // Either the response ended when the tuple was written, or the request was one packet.
    let by_end = told.transfer_time.map(|transfer| told.ts_end - transfer);
    for response in [by_end, Some(told.ts + response_time)]
        .into_iter()
        .flatten()
    {
        let asked = response - response_time;
        let request_last = recording
            .at(asked, client, server)
            .filter(|_| asked >= told.ts);
        let Some(last) = request_last else {
            continue;
        };
        let Some(answer) = recording.at(response, server, client) else {
            continue;
        };
        let end = told
            .transfer_time
            .and_then(|transfer| recording.at(response + transfer, server, client));
        transaction.request = Some(PacketSpan {
            first,
            last,
            whole: true,
        });
        let response = PacketSpan {
            first: answer,
            last: end.unwrap_or(answer),
            whole: end.is_some(),
        };
        transaction.response = Some(response);
        break;
    }
    transaction
}
