//! Packets with text that attacks its readers: HTML elements and handlers, terminal control characters, bidirectional
//! characters, zero bytes, and very long text. Each service has its own port; the dialogs around the texts are those of
//! real clients and servers.

use testkit::mysql::{greeting, packet};
use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};
use testkit::{SentPacket, TcpDialogue, XdrWriter};
use wire::FlowSide;

/// An HTML element without spaces, which would end URLs and keys.
const MARK: &str = "<img/src=x/onerror=alert(1)>";
/// Ends an attribute, and starts a script.
const SCRIPT: &str = "\"'></td></svg><script>alert(2)</script>";
/// Bidirectional, invisible and cursor-moving characters.
const ACTS: &str = "\u{202e}gnp\u{2066}\u{200b}\u{feff}\u{1b}[31m\u{7}\u{9b}2J";
/// Repetitions of each kind of request.
const ROUNDS: usize = 4;

/// Whether a text contains what was sent, whatever became of its surroundings.
#[allow(
    dead_code,
    reason = "of the two tests that have this file one looks at texts itself"
)]
pub fn is_in(text: &str) -> bool {
    ["img/src=x/onerror=alert(1)", "script>alert(2)"]
        .iter()
        .any(|mark| text.contains(mark))
}

/// A server, and its dialog.
type Speaks = (&'static str, fn(&mut TcpDialogue));

/// The capture as file content.
pub fn capture() -> Vec<u8> {
    let mut sent: Vec<SentPacket> = (0..ROUNDS).flat_map(round).collect();
    sent.sort_by_key(|packet| packet.ts);
    pcap_bytes(&sent, TimestampPrecision::Nanos, ByteOrder::Little)
}

fn round(nth: usize) -> Vec<SentPacket> {
    let talk = |server: &str| {
        let mut talk = TcpDialogue::new(&format!("10.66.0.{}:{}", nth + 1, 40_000 + nth), server);
        talk.step_ns = 400_000;
        talk.advance(nth as i64 * 250_000_000);
        talk
    };
    let kinds: [Speaks; 6] = [
        ("10.66.1.1:80", http),
        ("10.66.1.2:3306", mysql),
        ("10.66.1.3:11211", memcached),
        ("10.66.1.4:6379", redis),
        ("10.66.1.5:443", tls),
        ("10.66.1.6:2049", nfs),
    ];
    let mut all = Vec::new();
    for (server, speak) in kinds {
        let mut talk = talk(server);
        talk.handshake();
        speak(&mut talk);
        talk.close();
        all.extend(talk.take());
    }
    let mut dns = talk("10.66.1.7:53");
    self::dns(&mut dns);
    all.extend(dns.take());
    all
}

fn http(talk: &mut TcpDialogue) {
    let long = "/<b>".repeat(16 << 10);
    let zero = format!("/zero{}{MARK}", '\0');
    let urls = [
        format!("/{MARK}?q={MARK}"),
        format!("/{SCRIPT}"),
        format!("/{ACTS}"),
        long,
        zero,
    ];
    for url in urls {
        let head = [
            format!(
                "GET {url} HTTP/1.1\r\nHost: {MARK}\r\nUser-Agent: {SCRIPT}{ACTS}\r\nReferer: javascript:alert(3)//{MARK}\r\n"
            ),
            format!(
                "X-Forwarded-For: {SCRIPT}\r\nCookie: a={MARK}\r\nContent-Type: {MARK}\r\n\r\n"
            ),
        ];
        talk.client().send(head.concat().as_bytes());
        let answer = format!(
            "HTTP/1.1 500 {MARK}\r\nServer: {SCRIPT}\r\nContent-Type: text/{MARK}\r\nContent-Length: 2\r\n\r\nno"
        );
        talk.server().send(answer.as_bytes());
    }
}

fn mysql(talk: &mut TcpDialogue) {
    const PROTOCOL_41_WITH_DATABASE: u32 = 0x0000_820d;
    talk.server().send(&greeting(PROTOCOL_41_WITH_DATABASE));
    let mut login = PROTOCOL_41_WITH_DATABASE.to_le_bytes().to_vec();
    login.extend([0, 0, 0, 1, 33]);
    login.extend([0; 23]);
    login.extend(format!("{MARK}\0\0{MARK}\0").as_bytes());
    talk.client().send(&packet(1, login));
    talk.server().send(&packet(2, [0, 0, 0, 2, 0, 0, 0]));
    let texts = [
        format!("SELECT '{MARK}', name FROM `{MARK}` WHERE `{SCRIPT}` = 1"),
        format!("UPDATE `t{ACTS}` SET a = 'x\0y' /* {SCRIPT} */"),
    ];
    for text in texts {
        talk.client()
            .send(&packet(0, [&[3], text.as_bytes()].concat()));
        talk.server().send(&packet(
            1,
            format!("\u{1}#42S02{MARK}{SCRIPT}")
                .as_bytes()
                .iter()
                .enumerate()
                .map(|(i, b)| if i == 0 { 0xff } else { *b })
                .collect::<Vec<u8>>(),
        ));
    }
}

fn memcached(talk: &mut TcpDialogue) {
    for key in [MARK, "\u{202e}\"'><script>alert(2)</script>"] {
        talk.client().send(format!("get {key}\r\n").as_bytes());
        talk.server().send(b"END\r\n");
    }
}

fn redis(talk: &mut TcpDialogue) {
    for words in [["GET", MARK], ["GET", SCRIPT], ["GET", ACTS]] {
        let [command, key] = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
        talk.client()
            .send(format!("*2\r\n{command}{key}").as_bytes());
        talk.server()
            .send(format!("-ERR{MARK} {SCRIPT}\r\n").as_bytes());
    }
}

fn tls(talk: &mut TcpDialogue) {
    let vector = |body: &[u8]| [&(body.len() as u16).to_be_bytes()[..], body].concat();
    let extension =
        |kind: u16, body: Vec<u8>| [kind.to_be_bytes().to_vec(), vector(&body)].concat();
    let name = extension(0, vector(&[vec![0], vector(MARK.as_bytes())].concat()));
    let protocol = extension(
        16,
        vector(&[vec![MARK.len() as u8], MARK.as_bytes().to_vec()].concat()),
    );
    let hello = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &[0, 2, 0xc0, 0x30],
        &[1, 0],
        &vector(&[name, protocol].concat()),
    ]
    .concat();
    let message = [&[1], &(hello.len() as u32).to_be_bytes()[1..], &hello].concat();
    talk.client()
        .send(&[&[22, 3, 1][..], &vector(&message)].concat());
    talk.server().send(&[21, 3, 3, 0, 2, 2, 40]);
}

fn nfs(talk: &mut TcpDialogue) {
    const NFS: u32 = 100_003;
    const MOUNT: u32 = 100_005;
    let call = |xid, program, procedure| {
        let sys = XdrWriter::default()
            .u32(1)
            .opaque(MARK.as_bytes())
            .words(&[10, 20, 0]);
        XdrWriter::default()
            .words(&[xid, 0, 2, program, 3, procedure])
            .u32(1)
            .opaque(&sys.0)
            .words(&[0, 0])
    };
    let reply = |xid| XdrWriter::default().words(&[xid, 1, 0, 0, 0, 0]);
    talk.client().send(
        &call(1, MOUNT, 1)
            .opaque(format!("/{MARK}").as_bytes())
            .record(),
    );
    talk.server()
        .send(&reply(1).u32(0).opaque(b"ROOT").words(&[1, 1]).record());
    for (xid, name) in [(2, MARK), (3, SCRIPT), (4, ACTS)] {
        talk.client().send(
            &call(xid, NFS, 3)
                .opaque(b"ROOT")
                .opaque(name.as_bytes())
                .record(),
        );
        talk.server()
            .send(&reply(xid).u32(0).opaque(b"FILE").words(&[0, 0]).record());
    }
}

fn dns(talk: &mut TcpDialogue) {
    for (id, label) in [(1_u16, MARK), (2, SCRIPT), (3, ACTS)] {
        let name = [&[label.len() as u8], label.as_bytes(), b"\x07example\0"].concat();
        let message = |flags: u16| {
            let head = [id, flags, 1, 0, 0, 0]
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect::<Vec<u8>>();
            [&head, &name, &[0, 1, 0, 1][..]].concat()
        };
        talk.datagram(FlowSide::A, &message(0x0100));
        talk.datagram(FlowSide::B, &message(0x8183));
    }
}
