//! A PROXY protocol header in front of a connection's bytes: recognized, checked, and removed.

use wire::{FlowSide, IpProtocol};

use super::{ProbeBuffer, ProbeChunk, ProbeFlow, ProxyPreamble};
use crate::proxy_header::{
    self, CHECKED_BYTES_MAX, ProxiedEndpoints, ProxyHeader, ProxyHeaderProbe,
};
use crate::{StreamGap, StreamSegment};

impl ProbeBuffer {
    /// Contents of the PROXY protocol header.
    #[must_use]
    pub fn proxied(&self) -> Option<ProxiedEndpoints> {
        self.preamble.proxied
    }

    /// Whether there was a header; its sender is certainly the client.
    #[must_use]
    pub fn is_proxied(&self) -> bool {
        self.preamble.sender.is_some()
    }

    /// The part of a segment after the header. `None`: nothing, or a possible header is held.
    pub fn behind_header<'a>(
        &mut self,
        side: FlowSide,
        segment: StreamSegment<'a>,
        flow: ProbeFlow,
    ) -> Option<StreamSegment<'a>> {
        let preamble = &mut self.preamble;
        if preamble.sender == Some(side) {
            let inside = preamble.left.min(segment.bytes.len() as u64);
            preamble.left -= inside;
            return Some(segment.behind(inside as usize)).filter(|rest| !rest.bytes.is_empty());
        }
        let may_begin = !preamble.judged[side.index()]
            && flow.transport == IpProtocol::TCP
            && flow.client.is_none_or(|client| client == side);
        if !may_begin {
            return Some(segment);
        }
        let held = self.held_of(side);
        if held
            .first()
            .or(segment.bytes.first())
            .is_some_and(|first| !proxy_header::begins(*first))
        {
            self.preamble.judged[side.index()] = true;
            return Some(segment);
        }
        let seen = [&held, segment.bytes].concat();
        match proxy_header::read(&seen) {
            ProxyHeaderProbe::Open => self.hold_start(side, segment),
            ProxyHeaderProbe::Header(header)
                if seen.len() < header.len && header.len <= CHECKED_BYTES_MAX =>
            {
                self.hold_start(side, segment)
            }
            ProxyHeaderProbe::Header(header)
                if seen.get(..header.len).is_none_or(proxy_header::is_sound) =>
            {
                self.accept(side, header, seen.len());
                let rest = seen.len().saturating_sub(header.len);
                return (rest > 0).then(|| segment.behind(segment.bytes.len() - rest));
            }
            ProxyHeaderProbe::Header(_) | ProxyHeaderProbe::Other => {
                self.preamble.judged[side.index()] = true;
                return Some(segment);
            }
        }
        None
    }

    /// The part of a gap after the header. The rest of a header is skipped if its length is known.
    pub(super) fn behind_header_gap(
        &mut self,
        side: FlowSide,
        gap: StreamGap,
    ) -> Option<StreamGap> {
        if !self.preamble.judged[side.index()] {
            let seen = self.held_of(side);
            match proxy_header::read(&seen) {
                ProxyHeaderProbe::Header(header) => self.accept(side, header, seen.len()),
                _ => match proxy_header::v2_len(&seen) {
                    Some(len) => {
                        self.accept(side, ProxyHeader { len, proxied: None }, seen.len());
                        // The addresses are missing.
                        self.midstream = true;
                    }
                    None => self.preamble.judged[side.index()] = true,
                },
            }
        }
        if self.preamble.sender != Some(side) {
            return Some(gap);
        }
        let inside = self.preamble.left.min(gap.len);
        self.preamble.left -= inside;
        let rest = StreamGap {
            seq: gap.after(inside),
            len: gap.len - inside,
            ..gap
        };
        (rest.len > 0).then_some(rest)
    }

    fn hold_start(&mut self, side: FlowSide, segment: StreamSegment<'_>) {
        let StreamSegment { bytes, ts, place } = segment;
        self.held.push(ProbeChunk {
            side,
            ts,
            place,
            missing: 0,
            bytes: bytes.to_vec(),
        });
    }

    fn accept(&mut self, side: FlowSide, header: ProxyHeader, seen: usize) {
        self.held.retain(|held| held.side != side);
        self.preamble = ProxyPreamble {
            judged: [true; 2],
            sender: Some(side),
            left: header.len.saturating_sub(seen) as u64,
            proxied: header.proxied,
        };
    }
}
