//! NFSv3: several calls under way, answered in any order.

use parsers::Direction::{ClientToServer, ServerToClient};
use parsers::nfs;
use testkit::{Rng, Xdr};

use crate::talk::{Say, Script, text};

/// Calls with numbers of their own.
pub fn script(rng: &mut Rng) -> Script {
    with_numbers(rng, u32::MAX)
}

/// Calls with numbers that are soon used again.
pub fn script_with_few_numbers(rng: &mut Rng) -> Script {
    with_numbers(rng, 20)
}

fn with_numbers(rng: &mut Rng, xids: u32) -> Script {
    let ahead = 1 + rng.below(12) as usize;
    let n = 5 + rng.below(40) as usize;
    let (mut says, mut asked, mut xid) = (Vec::new(), 0, 0);
    // Number, place in the script and reply of the calls under way.
    let mut open: Vec<(u32, usize, Vec<u8>)> = Vec::new();
    while asked < n || !open.is_empty() {
        if asked < n && open.len() < ahead && (open.is_empty() || rng.chance(0.6)) {
            while open.iter().any(|call| call.0 == xid) {
                xid = (xid + 1) % xids;
            }
            let (call, reply) = turn(rng, xid, asked);
            says.push(Say { direction: ClientToServer, transaction: Some(asked), bytes: call });
            open.push((xid, asked, reply));
            (asked, xid) = (asked + 1, (xid + 1) % xids);
        } else {
            let (_, i, bytes) = open.remove(rng.below(open.len() as u64) as usize);
            says.push(Say { direction: ServerToClient, transaction: Some(i), bytes });
        }
    }
    // A path is as long as what was told before.
    Script { protocol: &nfs::PROTOCOL, schema: nfs::schema(), says, unchecked: &["path"] }
}

fn turn(rng: &mut Rng, xid: u32, i: usize) -> (Vec<u8>, Vec<u8>) {
    let call = |procedure| {
        let sys = Xdr::default().u32(1).opaque(b"box").words(&[10, 20, 0]);
        Xdr::default().words(&[xid, 0, 2, 100_003, 3, procedure]).u32(1).opaque(&sys.0).words(&[0, 0])
    };
    let reply = Xdr::default().words(&[xid, 1, 0, 0, 0, 0]);
    let file = format!("FILE{i}");
    let len = rng.below(4) * rng.below(1500);
    let data = text(rng, len).into_bytes();
    let offset = 512 * rng.below(9);
    let (call, reply) = match rng.below(5) {
        0 => (call(1).opaque(file.as_bytes()), reply.u32(0).attributes(3)),
        1 => {
            let name = format!("{i}{}", text(rng, offset / 20));
            let found = reply.u32(0).opaque(file.as_bytes()).words(&[0, 0]);
            (call(3).opaque(b"ROOT").opaque(name.as_bytes()), found)
        }
        2 => (
            call(6).opaque(file.as_bytes()).u64(offset).u32(4096),
            reply.words(&[0, 1]).attributes(1 << 20).words(&[data.len() as u32, 0]).opaque(&data),
        ),
        3 => (
            call(7).opaque(file.as_bytes()).u64(offset).words(&[data.len() as u32, 2]).opaque(&data),
            reply
                .words(&[0, 1])
                .u64(5)
                .words(&[1, 2, 3, 4, 1])
                .attributes(6)
                .words(&[data.len() as u32, 2])
                .u64(0),
        ),
        _ => {
            let mut list = reply.words(&[0, 1]).attributes(4096).u64(7);
            for entry in 0..rng.below(20) {
                list = list.u32(1).u64(entry).opaque(text(rng, 6).as_bytes()).u64(entry + 1);
            }
            (call(16).opaque(file.as_bytes()).u64(0).u64(0).u32(4096), list.words(&[0, 1]))
        }
    };
    (call.record(), reply.record())
}
