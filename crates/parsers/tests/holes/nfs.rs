//! NFSv3: several concurrent calls with replies in any order.

use parsers::Direction::{ClientToServer, ServerToClient};
use parsers::nfs;
use testkit::{SeededRng, XdrWriter};

use crate::talk::{Say, Script, text};

/// Calls with unique numbers.
pub fn script(rng: &mut SeededRng) -> Script {
    with_numbers(rng, u32::MAX, false)
}

/// Calls with numbers that are soon reused.
pub fn script_with_few_numbers(rng: &mut SeededRng) -> Script {
    with_numbers(rng, 20, false)
}

/// Files and names that contain RPC messages.
pub fn script_of_rpc_in_files(rng: &mut SeededRng) -> Script {
    with_numbers(rng, u32::MAX, true)
}

fn with_numbers(rng: &mut SeededRng, xids: u32, has_rpc: bool) -> Script {
    let ahead = 1 + rng.below(12) as usize;
    let n = 5 + rng.below(40) as usize;
    let mut says = Vec::new();
    let mut asked = 0;
    let mut xid = 0;
    // Number, position in the script, and reply of the open calls.
    let mut open: Vec<(u32, usize, Vec<u8>)> = Vec::new();
    while asked < n || !open.is_empty() {
        if asked < n && open.len() < ahead && (open.is_empty() || rng.chance(0.6)) {
            while open.iter().any(|call| call.0 == xid) {
                xid = (xid + 1) % xids;
            }
            let (call, reply) = turn(rng, xid, asked, has_rpc);
            says.push(Say {
                direction: ClientToServer,
                transaction: Some(asked),
                bytes: call,
            });
            open.push((xid, asked, reply));
            asked += 1;
            xid = (xid + 1) % xids;
        } else {
            let (_, i, bytes) = open.remove(rng.below(open.len() as u64) as usize);
            says.push(Say {
                direction: ServerToClient,
                transaction: Some(i),
                bytes,
            });
        }
    }
    // The length of a path depends on the names seen before.
    let protocol = &nfs::PROTOCOL;
    let schema = nfs::schema();
    Script {
        protocol,
        schema,
        says,
        unchecked: &["path"],
        begins_known: true,
    }
}

fn call(xid: u32, procedure: u32) -> XdrWriter {
    let sys = XdrWriter::default()
        .u32(1)
        .opaque(b"box")
        .words(&[10, 20, 0]);
    XdrWriter::default()
        .words(&[xid, 0, 2, 100_003, 3, procedure])
        .u32(1)
        .opaque(&sys.0)
        .words(&[0, 0])
}

fn reply(xid: u32) -> XdrWriter {
    XdrWriter::default().words(&[xid, 1, 0, 0, 0, 0])
}

/// Records of calls and replies, as one stream or with gaps between them, also nested; some with marks that claim too
/// much data. Their numbers differ from those of the dialogue.
fn rpc(rng: &mut SeededRng, depth: u32) -> Vec<u8> {
    let mut stream = vec![b'x'; 4 * rng.below(20) as usize];
    let between = rng.below(2) * 70;
    let lies = rng.chance(0.2);
    for _ in 0..rng.below(if depth == 0 { 40 } else { 5 }) {
        let xid = 0x7000_0000 + rng.below(1 << 20) as u32;
        let name = format!("in a file {xid}");
        let message = match rng.below(6) {
            0 => call(xid, 1).opaque(b"STORED"),
            1 => call(xid, 12).opaque(b"STORED").opaque(name.as_bytes()),
            2 if depth < 3 => {
                let data = rpc(rng, depth + 1);
                call(xid, 7)
                    .opaque(b"STORED")
                    .u64(0)
                    .words(&[data.len() as u32, 2])
                    .opaque(&data)
            }
            3 => reply(xid).u32(0).attributes(3),
            4 => reply(xid).u32(70),
            _ => call(xid, 6).opaque(b"STORED").u64(0).u32(4096),
        };
        stream.extend(rng.bytes(between as usize));
        if lies {
            stream.extend((0x8000_0000 | 1u32 << (6 + rng.below(21))).to_be_bytes());
            stream.extend(message.0);
        } else {
            stream.extend(message.record());
        }
    }
    if rng.chance(0.3) {
        // The rest is in another part of the file.
        stream.truncate(stream.len() * 7 / 8);
    }
    stream
}

fn turn(rng: &mut SeededRng, xid: u32, i: usize, has_rpc: bool) -> (Vec<u8>, Vec<u8>) {
    let call = |procedure| call(xid, procedure);
    let reply = reply(xid);
    let file = format!("FILE{i}");
    let len = rng.below(4) * rng.below(1500);
    let data = if has_rpc {
        rpc(rng, 0)
    } else {
        text(rng, len).into_bytes()
    };
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
            reply
                .words(&[0, 1])
                .attributes(1 << 20)
                .words(&[data.len() as u32, 0])
                .opaque(&data),
        ),
        3 => (
            call(7)
                .opaque(file.as_bytes())
                .u64(offset)
                .words(&[data.len() as u32, 2])
                .opaque(&data),
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
                list = list
                    .u32(1)
                    .u64(entry)
                    .opaque(text(rng, 6).as_bytes())
                    .u64(entry + 1);
            }
            (
                call(16).opaque(file.as_bytes()).u64(0).u64(0).u32(4096),
                list.words(&[0, 1]),
            )
        }
    };
    (call.record(), reply.record())
}
