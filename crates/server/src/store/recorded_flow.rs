//! One flow of a capture, for the API: the conversation of its sides, and its packets.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

/// Requested part of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowPart {
    /// What its sides sent.
    Conversation,
    /// Its packets.
    Packets,
}

/// A request for a flow, with its limits.
#[derive(Clone, Copy, Debug)]
pub struct FlowRequest {
    /// ID of the flow.
    pub id: u64,
    /// Requested part.
    pub part: FlowPart,
    /// Time limit.
    pub time: Duration,
    /// Memory limit of the flow table in bytes.
    pub bytes: usize,
    /// Maximum bytes of a file with packets; later packets are counted.
    pub file_bytes: u64,
    /// Maximum turns of a conversation.
    pub turns: usize,
    /// Maximum bytes of data of a turn.
    pub turn_bytes: usize,
    /// Maximum bytes of data of all turns.
    pub data_bytes: usize,
}

impl FlowRequest {
    /// A request with the limits of every request besides time and memory.
    #[must_use]
    pub fn new(id: u64, part: FlowPart, time: Duration, bytes: usize) -> FlowRequest {
        FlowRequest {
            id,
            part,
            time,
            bytes,
            file_bytes: 16 << 20,
            turns: 500,
            turn_bytes: 2 << 10,
            data_bytes: 64 << 10,
        }
    }
}

/// A flow of a capture.
#[derive(Clone, Debug)]
pub struct RecordedFlow {
    /// Client and server.
    pub ends: [SocketAddr; 2],
    /// What its sides sent.
    pub conversation: FlowConversation,
    /// Its packets as pcapng, if requested.
    pub pcapng: Vec<u8>,
}

/// What both sides of a flow sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Conversation)]
pub struct FlowConversation {
    /// ID of the flow.
    pub id: String,
    /// Community ID of the flow.
    pub community_id: String,
    /// Transport protocol: tcp, udp, or a number.
    pub transport: String,
    /// Address and port of the client.
    pub client: String,
    /// Address and port of the server.
    pub server: String,
    /// Whether the client was guessed from the ports.
    pub client_guessed: bool,
    /// Time of the first packet, in nanoseconds since the epoch.
    pub first_ns: String,
    /// Time of the last packet.
    pub last_ns: String,
    /// Number of packets.
    pub packets: u64,
    /// Bytes of these packets, as captured.
    pub packet_bytes: u64,
    /// Packets beyond the maximum size of a file.
    pub packets_left_out: u64,
    /// Turns in order: data of one side until the other side sends, or until a pause of a second; datagrams one by one.
    pub turns: Vec<ConversationTurn>,
    /// Turns beyond the maximum.
    pub turns_left_out: u64,
    /// How the flow ended: fin, rst, idle, `port_reused`, evicted, or `end_of_input`.
    pub ending: String,
    /// Errors of the capture.
    pub notes: Vec<String>,
}

/// Data that one side of a flow sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ConversationTurn {
    /// Sender.
    pub from: ConversationSide,
    /// Time of its first packet, in nanoseconds since the epoch.
    pub first_ns: String,
    /// Time of its last packet.
    pub last_ns: String,
    /// Bytes sent.
    pub bytes: u64,
    /// Bytes that were not captured.
    pub missing: u64,
    /// First bytes in hexadecimal.
    pub data: String,
}

/// A side of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConversationSide {
    /// The client.
    Client,
    /// The server.
    Server,
}
