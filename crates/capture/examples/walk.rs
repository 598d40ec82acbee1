//! Reads captures and does as little as can be: the share of reading and decoding in what a query takes.
//!
//! `walk read FILE…` finds the packets, `walk decode FILE…` adds up their sources and lengths, `walk flows FILE…` hashes
//! the flow of each. Prints counts and a hash that only depends on the files; time it from outside.

use wire::Packet;

fn main() {
    let mut args = std::env::args().skip(1);
    let step = args.next().unwrap_or_default();
    let mut source = capture::open(&args.map(Into::into).collect::<Vec<_>>());
    let mut block = capture::PacketBlock::default();
    let mut sums = Sums::default();
    while source.next_block(&mut block) {
        match step.as_str() {
            "read" => sums.hash = sums.hash.wrapping_add(block.records()[0].ts.0 as u64),
            "decode" => sums.add(&block, |packet| {
                let [.., a, b, c, d] = packet.five_tuple.src.addr.0;
                u64::from(u32::from_be_bytes([a, b, c, d])) + u64::from(packet.original_len)
            }),
            "flows" => sums.add(&block, |packet| packet.five_tuple.flow_key().0.hash(1)),
            _ => return eprintln!("usage: walk read|decode|flows FILE…"),
        }
    }
    source.errors().iter().for_each(|e| eprintln!("{e}"));
    let Sums { undecodable, hash } = sums;
    println!(
        "{} packets, {undecodable} undecodable, {hash:016x}",
        source.counters().packets
    );
}

#[derive(Default)]
struct Sums {
    undecodable: u64,
    hash: u64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, block: &capture::PacketBlock, of: impl Fn(&Packet<'_>) -> u64) {
        for captured in block.packets() {
            match Packet::decode(&captured) {
                Ok(packet) => self.hash = self.hash.rotate_left(1).wrapping_add(of(&packet)),
                Err(_) => self.undecodable += 1,
            }
        }
    }
}
