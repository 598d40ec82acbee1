//! Capture filter in user space: removes the packets of any source that do not match a filter in tcpdump's language.
//! A tunneled packet matches by its outer or its inner headers. Fragments match with the first fragment of their
//! datagram, if that came before them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::PathBuf;

use wire::fragment::FragmentKey;
use wire::{CapturedPacket, IpFragment, LinkType, Packet, TransportHeader};

use crate::block::PacketBlock;
use crate::live::options::LiveError;
use crate::source::{PacketSource, SourceCounters, SourceError};
use crate::sys::bpf::{ClassicBpfProgram, FilterTarget};

/// Packet length passed to libpcap's compiler; only files with local traffic have longer packets.
const SNAPLEN: u32 = 262_144;

/// Maximum number of datagrams stored to match later fragments.
const DATAGRAMS_MAX: usize = 64;

/// Packets of `source` that match `text`.
///
/// # Errors
/// When the filter is invalid.
pub fn filtered(
    source: Box<dyn PacketSource>,
    text: &str,
) -> Result<Box<dyn PacketSource>, LiveError> {
    Ok(Box::new(filter(source, text)?))
}

/// Same for a source whose kernel filter by [`or_tunnels`] has already removed packets that neither match nor are
/// tunneled.
pub(crate) fn filtered_again(
    source: Box<dyn PacketSource>,
    text: &str,
) -> Result<Box<dyn PacketSource>, LiveError> {
    Ok(Box::new(FilteredSource {
        only_tunnels: true,
        ..filter(source, text)?
    }))
}

/// Whether a filter depends only on packet contents; not so for example `inbound`, which needs the kernel.
pub(crate) fn fits_packets(text: &str) -> bool {
    let ethernet = number(LinkType::Ethernet);
    ClassicBpfProgram::compile(text, &FilterTarget::Packets(ethernet), SNAPLEN).is_ok()
}

/// Kernel filter that also accepts all possible tunnel packets.
pub(crate) fn or_tunnels(text: &str, has_link_header: bool) -> String {
    let mut all =
        format!("({text}) or udp dst port 4789 or udp dst port 8472 or udp dst port 4790");
    all.push_str(" or udp dst port 6081 or udp dst port 2152 or udp dst port 1701 or ip proto 4 or ip proto 41 or ip proto 47");
    all.push_str(
        " or ip proto 115 or ip6 proto 4 or ip6 proto 41 or ip6 proto 47 or ip6 proto 115",
    );
    if has_link_header {
        for number in [
            "0x8847", "0x8848", "0x8864", "0x8909", "0x8926", "0x893f", "0x892f", "0x88e7",
            "0x894f",
        ] {
            all.push_str(&format!(" or ether proto {number}"));
        }
    }
    all
}

fn filter(source: Box<dyn PacketSource>, text: &str) -> Result<FilteredSource, LiveError> {
    let mut filtered = FilteredSource {
        text: text.to_owned(),
        programs: FilterPrograms(Vec::new()),
        inside: FilterPrograms(Vec::new()),
        datagrams: VecDeque::new(),
        only_tunnels: false,
        errors: source.errors().to_vec(),
        learned: source.errors().len(),
        source,
        counters: SourceCounters::default(),
    };
    // Most captures are Ethernet, and a filter that is invalid for it is invalid altogether.
    match filtered.compile(LinkType::Ethernet) {
        Ok(program) => filtered
            .programs
            .0
            .push((LinkType::Ethernet, Some(program))),
        Err(message) => {
            return Err(LiveError::BadFilter {
                text: text.to_owned(),
                message,
            });
        }
    }
    // Packets inside tunnels have no link header: a filter that requires one applies to outer headers only.
    for link_type in [LinkType::Ipv4, LinkType::Ipv6] {
        filtered
            .inside
            .0
            .push((link_type, filtered.compile(link_type).ok()));
    }
    Ok(filtered)
}

/// A source with a filter.
struct FilteredSource {
    source: Box<dyn PacketSource>,
    text: String,
    /// Programs for each link type seen.
    programs: FilterPrograms,
    /// Programs for packets inside tunnels.
    inside: FilterPrograms,
    /// Fragmented datagrams whose first fragment matched.
    datagrams: VecDeque<FragmentKey>,
    /// The kernel has decided on all other packets.
    only_tunnels: bool,
    /// Errors of the source and of the filter.
    errors: Vec<SourceError>,
    /// Number of the source's errors among them.
    learned: usize,
    counters: SourceCounters,
}

impl FilteredSource {
    fn compile(&self, link_type: LinkType) -> Result<ClassicBpfProgram, String> {
        let number = number(link_type);
        ClassicBpfProgram::compile(&self.text, &FilterTarget::Packets(number), SNAPLEN)
    }

    /// Compiles a program for each link type of the block.
    fn prepare(&mut self, block: &PacketBlock) {
        for link_type in block.records().iter().map(|record| record.link_type) {
            if self.programs.0.iter().any(|(known, _)| *known == link_type) {
                continue;
            }
            let program = self.compile(link_type);
            if let Err(message) = &program {
                self.errors.push(SourceError {
                    path: PathBuf::from(&self.text),
                    offset: None,
                    message: format!(
                        "the filter does not fit packets of link type {link_type:?}: {message}"
                    ),
                    after_packets: self.counters.packets,
                });
            }
            self.programs.0.push((link_type, program.ok()));
        }
    }
}

/// A program for each link type; `None` if the filter is invalid for it, and matches nothing.
struct FilterPrograms(Vec<(LinkType, Option<ClassicBpfProgram>)>);

impl FilterPrograms {
    fn take(&self, packet: &CapturedPacket<'_>) -> bool {
        let program = self
            .0
            .iter()
            .find(|(link_type, _)| *link_type == packet.link_type);
        program
            .and_then(|(_, program)| program.as_ref())
            .is_some_and(|program| program.takes(packet.bytes, packet.original_len))
    }
}

impl FilteredSource {
    fn takes(&mut self, packet: &CapturedPacket<'_>) -> bool {
        if self.only_tunnels && is_for_the_kernel(packet) {
            return true;
        }
        let is_whole = Packet::is_surely_whole(packet);
        let inner = || wire::innermost(packet).is_some_and(|inner| self.inside.take(&inner));
        let taken = self.programs.take(packet) || !is_whole && inner();
        if is_whole {
            taken
        } else {
            self.takes_part(packet, taken)
        }
    }

    /// Returns `taken`; for a fragment also true if the first of its datagram matched.
    fn takes_part(&mut self, packet: &CapturedPacket<'_>, taken: bool) -> bool {
        let Some(IpFragment { key, offset, .. }) = IpFragment::of(packet) else {
            return taken;
        };
        if taken && offset == 0 {
            if self.datagrams.len() == DATAGRAMS_MAX {
                self.datagrams.pop_front();
            }
            self.datagrams.push_back(key);
        }
        taken || self.datagrams.contains(&key)
    }
}

/// Whether the kernel's decision on a packet is final: it is neither in a tunnel nor to a tunnel port.
fn is_for_the_kernel(packet: &CapturedPacket<'_>) -> bool {
    if Packet::is_surely_whole(packet) {
        return true;
    }
    let goes_to_tunnel = |packet: Packet<'_>| {
        matches!(packet.transport, TransportHeader::Udp)
            && wire::is_tunnel_port(packet.five_tuple.dst.port)
    };
    wire::innermost(packet).is_none() && !Packet::decode(packet).is_ok_and(goes_to_tunnel)
}

impl PacketSource for FilteredSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        let more = self.source.next_block(block);
        self.errors
            .extend_from_slice(&self.source.errors()[self.learned..]);
        self.learned = self.source.errors().len();
        if !more {
            return false;
        }
        self.prepare(block);
        let before = block.len();
        block.retain(|packet| self.takes(packet));
        self.counters.filtered += (before - block.len()) as u64;
        self.counters.count(block);
        true
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        let SourceCounters {
            packets,
            original_bytes,
            captured_bytes,
            truncated_packets,
            filtered,
            ..
        } = self.counters;
        SourceCounters {
            packets,
            original_bytes,
            captured_bytes,
            truncated_packets,
            filtered,
            ..self.source.counters()
        }
    }

    fn names(&self) -> &[(IpAddr, String)] {
        self.source.names()
    }

    fn backlog(&self) -> f32 {
        self.source.backlog()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.source.progress()
    }
}

/// libpcap's number of a link type, which may differ from that in files.
fn number(link_type: LinkType) -> u16 {
    match link_type {
        LinkType::Null => 0,
        LinkType::Ethernet => 1,
        LinkType::Raw => 12,
        LinkType::Loop => 108,
        LinkType::LinuxSll => 113,
        LinkType::Ipv4 => 228,
        LinkType::Ipv6 => 229,
        LinkType::LinuxSll2 => 276,
        // ATM is one of the few below 104 that differ.
        LinkType::Other(100) => 11,
        LinkType::Other(number) => number,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::Timestamp;

    use super::*;

    /// One block of packets: an IPv4 header each, after the header of the link type.
    struct SingleBlockSource(Vec<LinkType>);

    impl PacketSource for SingleBlockSource {
        fn next_block(&mut self, block: &mut PacketBlock) -> bool {
            block.clear();
            let types = std::mem::take(&mut self.0);
            for link_type in &types {
                let mut bytes = match link_type {
                    LinkType::Ethernet => [&[0; 12][..], &[8, 0]].concat(),
                    LinkType::LinuxSll2 => [&[8, 0][..], &[0; 18]].concat(),
                    _ => Vec::new(),
                };
                bytes.extend([
                    0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
                ]);
                let len = bytes.len() as u32;
                let record = block.add_packet(Timestamp(0), *link_type, len, Arc::new(bytes));
                block.push(record);
            }
            !types.is_empty()
        }

        fn errors(&self) -> &[SourceError] {
            &[]
        }

        fn counters(&self) -> SourceCounters {
            SourceCounters {
                packets: 99,
                lost_before_us: Some(5),
                ..SourceCounters::default()
            }
        }
    }

    fn check(text: &str, types: &[LinkType], taken: &[LinkType]) -> Box<dyn PacketSource> {
        let mut source =
            filtered(Box::new(SingleBlockSource(types.to_vec())), text).expect("a filter");
        let mut block = PacketBlock::default();
        assert!(source.next_block(&mut block));
        let found: Vec<_> = block.packets().map(|p| p.link_type).collect();
        assert_eq!(found, taken, "{text}");
        assert!(!source.next_block(&mut block));
        source
    }

    #[test]
    fn each_link_type_is_filtered_its_own_way() {
        let all = [
            LinkType::Ethernet,
            LinkType::LinuxSll2,
            LinkType::Raw,
            LinkType::Ipv4,
        ];
        check("host 10.0.0.2", &all, &all);
        let source = check("src host 10.0.0.2", &all, &[]);
        let counters = source.counters();
        assert_eq!(
            (counters.packets, counters.filtered, counters.lost_before_us),
            (0, 4, Some(5))
        );
    }

    #[test]
    fn filters_for_other_link_types_are_reported() {
        let two = [
            LinkType::Raw,
            LinkType::Ethernet,
            LinkType::Other(147),
            LinkType::Raw,
        ];
        let source = check("ether src 0:0:0:0:0:0", &two, &[LinkType::Ethernet]);
        let errors: Vec<String> = source.errors().iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].contains("Raw"), "{errors:?}");
    }

    #[test]
    fn a_wrong_filter_is_refused() {
        let error = filtered(Box::new(SingleBlockSource(Vec::new())), "tcp prot 80")
            .err()
            .expect("no filter");
        assert!(error.to_string().contains("tcp prot 80"), "{error}");
    }
}
