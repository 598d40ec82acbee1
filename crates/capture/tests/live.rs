//! Several live sources on one interface: flows are complete, and no packet is lost or seen twice. Uses the loopback
//! interface; requires the permission to capture.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use capture::live::{LiveError, LiveOptions, open};
use capture::{PacketBlock, PacketSource};
use wire::{FlowKey, Packet};

/// Opens a capture of a port; `None` without permission, if `ALLOW_MISSING` names `capture`.
fn opened(options: &LiveOptions) -> Option<Vec<Box<dyn PacketSource>>> {
    let opened = open(options);
    testkit::require!("capture" => !matches!(opened, Err(LiveError::NoPermission)));
    Some(opened.expect("lo can be captured"))
}

/// Reads a source to its end: packets by flow key, in each direction.
fn read(source: &mut dyn PacketSource) -> HashMap<FlowKey, u64> {
    let mut flows = HashMap::new();
    let mut block = PacketBlock::default();
    while source.next_block(&mut block) {
        for packet in block.packets() {
            let packet = Packet::decode(&packet).expect("an IP packet");
            *flows.entry(packet.five_tuple.flow_key().0).or_default() += 1;
        }
    }
    assert_eq!(source.counters().packets, flows.values().sum::<u64>());
    assert_eq!(source.counters().lost_before_us, Some(0));
    flows
}

/// A request and its response on a separate connection.
fn talk(listener: &TcpListener) {
    let mut client =
        TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    client.write_all(b"ping").expect("sent");
    server.read_exact(&mut [0; 4]).expect("received");
    server.write_all(b"pong").expect("sent");
    client.read_exact(&mut [0; 4]).expect("received");
}

#[test]
fn workers_get_whole_flows() {
    const FLOWS: usize = 200;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let options = LiveOptions {
        workers: 3,
        filter: format!("tcp port {port}"),
        ..LiveOptions::new("lo")
    };
    let Some(mut sources) = opened(&options) else {
        return;
    };
    (0..FLOWS).for_each(|_| talk(&listener));
    options.stop.stop();
    let seen: Vec<_> = sources
        .iter_mut()
        .map(|source| read(source.as_mut()))
        .collect();
    // At least SYN, SYN+ACK, ACK, request, response, and two FINs: a flow split between two sources would have fewer
    // in each.
    assert!(
        seen.iter()
            .flat_map(HashMap::values)
            .all(|packets| *packets >= 7),
        "{seen:?}"
    );
    assert_eq!(seen.iter().map(HashMap::len).sum::<usize>(), FLOWS);
    assert!(
        seen.iter().all(|flows| flows.len() > FLOWS / 10),
        "each has its share: {seen:?}"
    );
}

#[test]
fn borrowed_buffers_outlive_the_source() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let options = LiveOptions {
        filter: format!("tcp port {port}"),
        // Two blocks, the minimum.
        buffer_bytes: 1,
        ..LiveOptions::new("lo")
    };
    let Some(mut sources) = opened(&options) else {
        return;
    };
    // Keeps every block until the ring is full, which is reported.
    let mut held = Vec::new();
    while sources[0].counters().lost_before_us == Some(0) {
        talk(&listener);
        let mut block = PacketBlock::default();
        assert!(sources[0].next_block(&mut block));
        held.push(block);
    }
    assert!(sources[0].counters().buffer_overflows > 0);
    let bytes = |held: &[PacketBlock]| -> Vec<Vec<u8>> {
        held.iter()
            .flat_map(|block| block.packets().map(|packet| packet.bytes.to_vec()))
            .collect()
    };
    let before = bytes(&held);
    for _ in 0..100 {
        talk(&listener);
    }
    assert!(
        bytes(&held) == before,
        "nothing is written over what is kept"
    );
    held.retain(|block| !block.is_empty());
    let kept = held.split_off(held.len() - 1);
    let last = bytes(&kept);
    drop(held);
    // Capacity is available again.
    let mut block = PacketBlock::default();
    while block.is_empty() {
        talk(&listener);
        assert!(sources[0].next_block(&mut block));
    }
    drop((sources, block));
    assert!(bytes(&kept) == last, "the ring outlives its source");
}
