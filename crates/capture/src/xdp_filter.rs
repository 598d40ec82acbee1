//! XDP program for a monitor's packets: FROM and TO, both directions, after VLAN tags and IPv6 extension headers,
//! including fragments of matching hosts. `XdpFilter::program` emits the instructions; matching packets go to the
//! socket of their receive queue, all others to the stack. Compares exactly what the monitor compares later, so no
//! matching packet is missed; the client is determined only by the monitor. Tunnels are not decoded: the outer header
//! counts.

mod assembler;

use std::net::IpAddr;

use wire::ethernet::EtherType;
use wire::{Addr, IpProtocol, ipv6, vlan};

pub(crate) use assembler::EbpfInstruction;
use assembler::{AccessWidth, AluOperation, Assembler, EbpfRegister, FRAME, JumpLabel, JumpTest};

/// FROM and TO of a query; an empty list matches every endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpFilter {
    /// Client endpoints.
    pub clients: Vec<XdpEndMatch>,
    /// Server endpoints.
    pub servers: Vec<XdpEndMatch>,
}

/// An address and a port, either optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpEndMatch {
    /// Network and prefix length; `None` matches every address.
    pub net: Option<(IpAddr, u8)>,
    /// `None` matches every port.
    pub port: Option<u16>,
}

impl XdpFilter {
    /// Whether every packet matches, including those without an IP header.
    #[must_use]
    pub fn wants_all(&self) -> bool {
        let open = |list: &[XdpEndMatch]| list.is_empty() || list.iter().any(XdpEndMatch::is_open);
        open(&self.clients) && open(&self.servers)
    }

    /// The program that redirects matching packets to the socket in `map` (descriptor of an XSKMAP) for their receive
    /// queue. `None` if the lists are too long for one program: about a thousand endpoints.
    pub(crate) fn program(&self, map: i32) -> Option<Vec<EbpfInstruction>> {
        let mut asm = Assembler::default();
        let take = asm.label();
        let pass = asm.label();
        asm.mov64(CONTEXT, 1);
        if !self.wants_all() {
            asm.load(AccessWidth::U32, CURSOR, CONTEXT, context::DATA);
            asm.load(AccessWidth::U32, END, CONTEXT, context::DATA_END);
            let ends = parse(&mut asm, pass);
            asm.place(ends);
            self.compare(&mut asm, take, pass);
        }
        asm.place(take);
        asm.load(AccessWidth::U32, 2, CONTEXT, context::RX_QUEUE);
        asm.load_map(1, map);
        // If the queue has no socket, the packet goes to the stack.
        asm.alu(AluOperation::Mov, 3, XDP_PASS);
        asm.call(HELPER_REDIRECT_MAP);
        asm.exit();
        // The verifier rejects unreachable code.
        if !self.wants_all() {
            asm.place(pass);
            asm.alu(AluOperation::Mov, 0, XDP_PASS);
            asm.exit();
        }
        asm.finish()
    }

    /// Compares client and server in both directions.
    fn compare(&self, asm: &mut Assembler, take: JumpLabel, pass: JumpLabel) {
        let forth = asm.label();
        let back = asm.label();
        let reverse = asm.label();
        any_of(asm, &self.clients, SRC, (forth, reverse));
        asm.place(forth);
        any_of(asm, &self.servers, DST, (take, reverse));
        asm.place(reverse);
        any_of(asm, &self.clients, DST, (back, pass));
        asm.place(back);
        any_of(asm, &self.servers, SRC, (take, pass));
    }
}

impl XdpEndMatch {
    fn is_open(&self) -> bool {
        self.port.is_none() && self.mask_and_net().0 == 0
    }

    /// As 128-bit numbers, IPv4 in mapped form: the same rule as in the monitor's filter.
    fn mask_and_net(&self) -> (u128, u128) {
        let Some((ip, prefix)) = self.net else {
            return (0, 0);
        };
        let prefix = u32::from(prefix) + if ip.is_ipv4() { 96 } else { 0 };
        let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
        (mask, u128::from_be_bytes(Addr::from(ip).0) & mask)
    }
}

mod context {
    //! Fields of `struct xdp_md`.
    pub const DATA: i16 = 0;
    pub const DATA_END: i16 = 4;
    pub const RX_QUEUE: i16 = 16;
}

const XDP_PASS: u32 = 2;
const HELPER_REDIRECT_MAP: i32 = 51;

const SCRATCH: EbpfRegister = 0;
/// The four words of an address while a list is compared with it; otherwise free.
const WORDS: [EbpfRegister; 4] = [1, 2, 3, 4];
const PORT: EbpfRegister = 5;
const CONTEXT: EbpfRegister = 6;
/// Position in the packet, and its end.
const CURSOR: EbpfRegister = 7;
const END: EbpfRegister = 8;
/// EtherType, later the protocol.
const KIND: EbpfRegister = 9;

/// Stack offset of a stored endpoint: address, then port.
type StackOffset = i16;
const SRC: StackOffset = -40;
const DST: StackOffset = -20;
const PORT_OFFSET: i16 = 16;

/// Marks an unknown port in a fragment, which matches any.
const PORT_UNKNOWN: u32 = 1 << 16;

/// A number in network order, as loaded from the packet.
fn raw16(n: u16) -> u32 {
    u32::from(u16::from_ne_bytes(n.to_be_bytes()))
}

/// Parses the packet and stores both endpoints on the stack; returns the label to place after that.
fn parse(asm: &mut Assembler, pass: JumpLabel) -> JumpLabel {
    let v4 = asm.label();
    let v6 = asm.label();
    let transport = asm.label();
    let ends = asm.label();
    let unknown_ports = asm.label();
    ethernet(asm, (v4, v6), pass);
    asm.place(v4);
    ipv4(asm, (transport, unknown_ports), pass);
    asm.place(v6);
    ipv6(asm, (transport, unknown_ports), pass);
    asm.place(unknown_ports);
    for end in [SRC, DST] {
        asm.store_immediate(FRAME, end + PORT_OFFSET, PORT_UNKNOWN);
    }
    asm.jump(ends);
    asm.place(transport);
    ports(asm, ends, pass);
    ends
}

/// Jumps to `pass` unless `len` bytes follow the cursor.
fn need(asm: &mut Assembler, len: i32, pass: JumpLabel) {
    asm.mov64(SCRATCH, CURSOR);
    asm.add64_immediate(SCRATCH, len);
    asm.jump_if_more(SCRATCH, END, pass);
}

fn ethernet(asm: &mut Assembler, (v4, v6): (JumpLabel, JumpLabel), pass: JumpLabel) {
    const VLAN: [EtherType; 3] = [EtherType::VLAN, EtherType::QINQ, EtherType::QINQ_OLD];
    need(asm, 14, pass);
    asm.load(AccessWidth::U16, KIND, CURSOR, 12);
    asm.add64_immediate(CURSOR, 14);
    for tags in 0..=vlan::TAGS_MAX {
        asm.jump_if(JumpTest::Eq, KIND, raw16(EtherType::IPV4.0), v4);
        asm.jump_if(JumpTest::Eq, KIND, raw16(EtherType::IPV6.0), v6);
        if tags == vlan::TAGS_MAX {
            asm.jump(pass);
            return;
        }
        let tag = asm.label();
        VLAN.iter()
            .for_each(|vlan| asm.jump_if(JumpTest::Eq, KIND, raw16(vlan.0), tag));
        asm.jump(pass);
        asm.place(tag);
        need(asm, 4, pass);
        asm.load(AccessWidth::U16, KIND, CURSOR, 2);
        asm.add64_immediate(CURSOR, 4);
    }
}

fn ipv4(asm: &mut Assembler, (transport, unknown_ports): (JumpLabel, JumpLabel), pass: JumpLabel) {
    need(asm, 20, pass);
    asm.load(AccessWidth::U8, 1, CURSOR, 0);
    asm.jump_if(JumpTest::Less, 1, 0x45, pass);
    asm.mov32(2, 1);
    asm.alu(AluOperation::ShiftRight, 2, 4);
    asm.jump_if(JumpTest::NotEq, 2, 4, pass);
    for (end, at) in [(SRC, 12), (DST, 16)] {
        let mapped = u32::from_ne_bytes([0, 0, 0xff, 0xff]);
        for (word, value) in [0, 0, mapped].into_iter().enumerate() {
            asm.store_immediate(FRAME, end + 4 * word as i16, value);
        }
        asm.load(AccessWidth::U32, 2, CURSOR, at);
        asm.store(AccessWidth::U32, FRAME, end + 12, 2);
    }
    asm.load(AccessWidth::U8, KIND, CURSOR, 9);
    // Only the first fragment has ports.
    asm.load(AccessWidth::U16, 2, CURSOR, 6);
    asm.alu(AluOperation::And, 2, raw16(0x1fff));
    asm.jump_if(JumpTest::NotEq, 2, 0, unknown_ports);
    asm.alu(AluOperation::And, 1, 0x0f);
    asm.alu(AluOperation::ShiftLeft, 1, 2);
    asm.add64(CURSOR, 1);
    asm.jump(transport);
}

fn ipv6(asm: &mut Assembler, (transport, unknown_ports): (JumpLabel, JumpLabel), pass: JumpLabel) {
    need(asm, 40, pass);
    asm.load(AccessWidth::U8, 1, CURSOR, 0);
    asm.alu(AluOperation::ShiftRight, 1, 4);
    asm.jump_if(JumpTest::NotEq, 1, 6, pass);
    for (end, at) in [(SRC, 8), (DST, 24)] {
        for word in (0..16).step_by(4) {
            asm.load(AccessWidth::U32, 2, CURSOR, at + word);
            asm.store(AccessWidth::U32, FRAME, end + word, 2);
        }
    }
    asm.load(AccessWidth::U8, KIND, CURSOR, 6);
    asm.add64_immediate(CURSOR, 40);
    for _ in 0..ipv6::EXTENSIONS_MAX {
        extension(asm, (transport, unknown_ports), pass);
    }
    asm.jump(transport);
}

/// Skips one IPv6 extension header, if present.
fn extension(
    asm: &mut Assembler,
    (transport, unknown_ports): (JumpLabel, JumpLabel),
    pass: JumpLabel,
) {
    const FRAGMENT: u32 = 44;
    const AUTHENTICATION: u32 = 51;
    /// Headers whose length is counted in units of 8 bytes after the first 8.
    const ORDINARY: [u32; 6] = [0, 43, 60, 135, 139, 140];
    let fragment = asm.label();
    let authentication = asm.label();
    let ordinary = asm.label();
    let skip = asm.label();
    let next = asm.label();
    asm.jump_if(JumpTest::Eq, KIND, FRAGMENT, fragment);
    asm.jump_if(JumpTest::Eq, KIND, AUTHENTICATION, authentication);
    ORDINARY
        .iter()
        .for_each(|&kind| asm.jump_if(JumpTest::Eq, KIND, kind, ordinary));
    asm.jump(transport);

    asm.place(fragment);
    need(asm, 8, pass);
    asm.load(AccessWidth::U8, KIND, CURSOR, 0);
    asm.load(AccessWidth::U16, 1, CURSOR, 2);
    asm.add64_immediate(CURSOR, 8);
    asm.alu(AluOperation::And, 1, raw16(0xfff8));
    asm.jump_if(JumpTest::NotEq, 1, 0, unknown_ports);
    asm.jump(next);

    asm.place(authentication);
    need(asm, 8, pass);
    asm.load(AccessWidth::U8, 1, CURSOR, 1);
    asm.alu(AluOperation::Add, 1, 2);
    asm.alu(AluOperation::ShiftLeft, 1, 2);
    asm.jump(skip);

    asm.place(ordinary);
    need(asm, 8, pass);
    asm.load(AccessWidth::U8, 1, CURSOR, 1);
    asm.alu(AluOperation::Add, 1, 1);
    asm.alu(AluOperation::ShiftLeft, 1, 3);

    asm.place(skip);
    asm.load(AccessWidth::U8, KIND, CURSOR, 0);
    asm.add64(CURSOR, 1);
    asm.place(next);
}

/// Ports of TCP and UDP; 0 for other protocols.
fn ports(asm: &mut Assembler, ends: JumpLabel, pass: JumpLabel) {
    let with_ports = asm.label();
    asm.jump_if(JumpTest::Eq, KIND, u32::from(IpProtocol::TCP.0), with_ports);
    asm.jump_if(JumpTest::Eq, KIND, u32::from(IpProtocol::UDP.0), with_ports);
    for end in [SRC, DST] {
        asm.store_immediate(FRAME, end + PORT_OFFSET, 0);
    }
    asm.jump(ends);
    asm.place(with_ports);
    need(asm, 4, pass);
    for (end, at) in [(SRC, 0), (DST, 2)] {
        asm.load(AccessWidth::U16, 1, CURSOR, at);
        asm.store(AccessWidth::U32, FRAME, end + PORT_OFFSET, 1);
    }
}

/// Jumps to `hit` if `end` matches any of `list`, otherwise to `miss`.
fn any_of(
    asm: &mut Assembler,
    list: &[XdpEndMatch],
    end: StackOffset,
    (hit, miss): (JumpLabel, JumpLabel),
) {
    if list.is_empty() || list.iter().any(XdpEndMatch::is_open) {
        asm.jump(hit);
        return;
    }
    for (i, word) in WORDS.into_iter().enumerate() {
        asm.load(AccessWidth::U32, word, FRAME, end + 4 * i as i16);
    }
    asm.load(AccessWidth::U32, PORT, FRAME, end + PORT_OFFSET);
    for m in list {
        let next = asm.label();
        one(asm, m, next);
        asm.jump(hit);
        asm.place(next);
    }
    asm.jump(miss);
}

/// Falls through if the endpoint in the registers matches, otherwise jumps to `miss`. Compares copies only: the
/// verifier then learns nothing about the originals, and all paths to the next comparison are equal to it.
fn one(asm: &mut Assembler, m: &XdpEndMatch, miss: JumpLabel) {
    let (mask, net) = m.mask_and_net();
    let words = |n: u128| n.to_be_bytes();
    // The last word distinguishes most IPv4 addresses.
    for (i, word) in WORDS.into_iter().enumerate().rev() {
        let at = |n: u128| {
            let bytes = words(n);
            u32::from_ne_bytes([
                bytes[4 * i],
                bytes[4 * i + 1],
                bytes[4 * i + 2],
                bytes[4 * i + 3],
            ])
        };
        if at(mask) != 0 {
            asm.mov32(SCRATCH, word);
            asm.alu(AluOperation::And, SCRATCH, at(mask));
            asm.jump_if(JumpTest::NotEq, SCRATCH, at(net), miss);
        }
    }
    if let Some(port) = m.port {
        let hit = asm.label();
        asm.mov32(SCRATCH, PORT);
        asm.alu(AluOperation::Xor, SCRATCH, raw16(port));
        asm.jump_if(JumpTest::Eq, SCRATCH, 0, hit);
        asm.mov32(SCRATCH, PORT);
        asm.alu(AluOperation::Xor, SCRATCH, PORT_UNKNOWN);
        asm.jump_if(JumpTest::NotEq, SCRATCH, 0, miss);
        asm.place(hit);
    }
}

#[cfg(test)]
mod tests;
