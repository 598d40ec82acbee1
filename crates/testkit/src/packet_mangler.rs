//! A simulated faulty network with a seed: packets are lost before the capture, delayed, reordered, and duplicated,
//! and data is split into other, partly overlapping segments. The same seed yields the same faults.

use wire::packet::TcpFlags;
use wire::{TcpInfo, TcpSeq};

use crate::{SeededRng, SentPacket, TransportCarrier};

/// Fault probabilities; all zero by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketMangler {
    /// Seed of the random generator.
    pub seed: u64,
    /// Probability that a packet is missing from the capture.
    pub loss: f64,
    /// Probability that a packet is captured twice.
    pub duplicate: f64,
    /// Probability that a packet is delayed.
    pub reorder: f64,
    /// Maximum delay.
    pub delay_max_ns: i64,
    /// Probability that a data segment is split in two, and that the second part overlaps the first.
    pub resegment: f64,
}

impl PacketMangler {
    /// The captured packets, in order of capture.
    #[must_use]
    pub fn apply(&self, sent: &[SentPacket]) -> Vec<SentPacket> {
        let mut rng = SeededRng::new(self.seed);
        let mut out = Vec::new();
        let pieces: Vec<SentPacket> = sent.iter().flat_map(|s| self.cut(&mut rng, s)).collect();
        for one in pieces {
            if rng.chance(self.loss) {
                continue;
            }
            let mut copies = if rng.chance(self.duplicate) { 2 } else { 1 };
            while copies > 0 {
                let mut late = one.clone();
                if copies == 2 || rng.chance(self.reorder) {
                    late.ts = late
                        .ts
                        .plus(rng.below(self.delay_max_ns.max(0) as u64 + 1) as i64);
                }
                out.push(late);
                copies -= 1;
            }
        }
        out.sort_by_key(|s| s.ts);
        out
    }

    /// Splits a data segment into up to three parts; other packets are unchanged.
    fn cut(&self, rng: &mut SeededRng, sent: &SentPacket) -> Vec<SentPacket> {
        let TransportCarrier::Tcp(tcp) = sent.carrier else {
            return vec![sent.clone()];
        };
        let special = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        let n = sent.payload.len();
        if n < 2 || tcp.flags.intersects(special) || sent.cut > 0 || !rng.chance(self.resegment) {
            return vec![sent.clone()];
        }
        let end = 1 + rng.below(n as u64 - 1) as usize;
        let overlap = if rng.chance(self.resegment) {
            rng.below(end as u64) as usize
        } else {
            0
        };
        let second = part(sent, tcp, end - overlap, n);
        let mut parts = vec![part(sent, tcp, 0, end)];
        parts.extend(self.cut(rng, &second));
        parts
    }
}

fn part(sent: &SentPacket, tcp: TcpInfo, start: usize, end: usize) -> SentPacket {
    let tcp = TcpInfo {
        seq: TcpSeq(tcp.seq.0.wrapping_add(start as u32)),
        ..tcp
    };
    SentPacket {
        carrier: TransportCarrier::Tcp(tcp),
        payload: sent.payload[start..end].to_vec(),
        ..sent.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TcpDialogue;
    use std::collections::BTreeMap;

    fn talk() -> Vec<SentPacket> {
        let mut talk = TcpDialogue::new("10.0.0.1:1024", "10.0.0.2:80");
        talk.handshake();
        for i in 0..40u8 {
            talk.client().send(&[i; 100]);
        }
        talk.take()
    }

    /// All payload bytes by sequence number.
    fn bytes_of(sent: &[SentPacket]) -> BTreeMap<u32, u8> {
        let each = |s: &SentPacket| {
            let seq = s.tcp_info().expect("a TCP dialogue").seq.0;
            s.payload
                .iter()
                .enumerate()
                .map(|(i, b)| (seq + i as u32, *b))
                .collect::<Vec<_>>()
        };
        sent.iter().flat_map(each).collect()
    }

    #[test]
    fn no_harm_by_default() {
        let sent = talk();
        let out = PacketMangler::default().apply(&talk());
        assert_eq!(sent.len(), out.len());
        assert_eq!(bytes_of(&sent), bytes_of(&out));
    }

    #[test]
    fn harm_without_loss_keeps_every_byte() {
        for seed in 0..50 {
            let harm = PacketMangler {
                seed,
                loss: 0.0,
                duplicate: 0.2,
                reorder: 0.3,
                delay_max_ns: 1 << 20,
                resegment: 0.5,
            };
            let out = harm.apply(&talk());
            assert!(out.len() > talk().len(), "seed {seed}");
            assert!(out.is_sorted_by_key(|s| s.ts), "seed {seed}");
            assert_eq!(bytes_of(&talk()), bytes_of(&out), "seed {seed}");
        }
    }

    #[test]
    fn loss_loses() {
        let out = PacketMangler {
            seed: 1,
            loss: 0.5,
            ..PacketMangler::default()
        }
        .apply(&talk());
        assert!(out.len() < talk().len() * 3 / 4 && out.len() > talk().len() / 4);
    }
}
