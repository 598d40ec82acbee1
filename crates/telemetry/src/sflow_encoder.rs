//! Packets to datagrams of sFlow version 5: flow samples with raw headers.

use std::net::IpAddr;

use wire::Timestamp;

use crate::sflow::HeaderProtocol;

/// Settings of a [`SflowEncoder`].
#[derive(Clone, Copy, Debug)]
pub struct SflowEncoderConfig {
    /// Address that identifies the agent.
    pub agent: IpAddr,
    /// Number of the sub-agent.
    pub sub_agent: u32,
    /// One of this many packets is sent.
    pub rate: u32,
    /// Maximum bytes of a packet's header.
    pub header_len: usize,
    /// Maximum bytes of a datagram.
    pub max_len: usize,
    /// Time of the agent's start.
    pub started: Timestamp,
}

/// Encodes sampled packets as datagrams.
#[derive(Debug)]
pub struct SflowEncoder {
    config: SflowEncoderConfig,
    samples: Vec<u8>,
    count: u32,
    /// Number of the next datagram.
    sequence: u32,
    /// Number of the next sample.
    next_sample: u32,
}

/// Bytes of a flow sample with a raw header, in addition to the header.
const SAMPLE_LEN: usize = 64;

impl SflowEncoder {
    /// An encoder without packets.
    #[must_use]
    pub fn new(config: SflowEncoderConfig) -> SflowEncoder {
        SflowEncoder {
            config,
            samples: Vec::new(),
            count: 0,
            sequence: 0,
            next_sample: 0,
        }
    }

    /// Adds a packet of `frame_len` bytes on the network, of which `bytes` are known. `pool`: the number of packets
    /// that could have been sampled so far. `send` gets the datagram that the packet does not fit into.
    pub fn push(
        &mut self,
        protocol: HeaderProtocol,
        frame_len: u32,
        bytes: &[u8],
        pool: u32,
        now: Timestamp,
        send: &mut impl FnMut(&[u8]),
    ) {
        let header = &bytes[..bytes.len().min(self.config.header_len)];
        let padded = header.len().next_multiple_of(4);
        if !self.samples.is_empty()
            && self.header_len() + self.samples.len() + SAMPLE_LEN + padded > self.config.max_len
        {
            self.flush(now, send);
        }
        let protocol = match protocol {
            HeaderProtocol::Ethernet => 1,
            HeaderProtocol::Ipv4 => 11,
            HeaderProtocol::Ipv6 => 12,
            HeaderProtocol::Mpls => 13,
            HeaderProtocol::Other(number) => number,
        };
        let words = [
            // A flow sample, and its bytes.
            1,
            (SAMPLE_LEN - 8 + padded) as u32,
            self.next_sample,
            // The data source is the agent.
            0,
            self.config.rate,
            pool,
            // No samples were dropped; interfaces are unknown; one record.
            0,
            0,
            0,
            1,
            // A raw header, and its bytes.
            1,
            (16 + padded) as u32,
            protocol,
            frame_len,
            0,
            header.len() as u32,
        ];
        words
            .iter()
            .for_each(|word: &u32| self.samples.extend(word.to_be_bytes()));
        self.samples.extend(header);
        self.samples
            .resize(self.samples.len() + padded - header.len(), 0);
        self.count += 1;
        self.next_sample = self.next_sample.wrapping_add(1);
    }

    /// Sends the packets that were not sent yet.
    pub fn flush(&mut self, now: Timestamp, send: &mut impl FnMut(&[u8])) {
        if self.samples.is_empty() {
            return;
        }
        let mut datagram = Vec::with_capacity(self.header_len() + self.samples.len());
        datagram.extend(5u32.to_be_bytes());
        match self.config.agent {
            IpAddr::V4(address) => {
                datagram.extend(1u32.to_be_bytes());
                datagram.extend(address.octets());
            }
            IpAddr::V6(address) => {
                datagram.extend(2u32.to_be_bytes());
                datagram.extend(address.octets());
            }
        }
        let uptime_ms = now.since(self.config.started).div_euclid(1_000_000) as u32;
        let words = [self.config.sub_agent, self.sequence, uptime_ms, self.count];
        words
            .iter()
            .for_each(|word| datagram.extend(word.to_be_bytes()));
        datagram.extend(&self.samples);
        send(&datagram);
        self.sequence = self.sequence.wrapping_add(1);
        self.samples.clear();
        self.count = 0;
    }

    fn header_len(&self) -> usize {
        if self.config.agent.is_ipv4() { 28 } else { 40 }
    }
}
