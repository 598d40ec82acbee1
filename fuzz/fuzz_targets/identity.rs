//! Arbitrary bytes as certificate input of servers and agents: a signing request, a peer's certificate, a fingerprint, a
//! name. The first byte selects which.
#![no_main]

use std::sync::LazyLock;

use identity::{
    AuthorityPin, CertificateAuthority, CertificateLifetime, CertificateSerial, SigningRequest,
    VerifiedPeer,
};
use libfuzzer_sys::fuzz_target;

const NOW: i64 = 1_795_000_000;

static AUTHORITY: LazyLock<CertificateAuthority> = LazyLock::new(|| {
    let (authority, _key) =
        CertificateAuthority::create("fuzz", CertificateLifetime::lasting(NOW, 1000))
            .expect("an authority");
    authority
});

fn sign(request: &str) {
    if let Ok(signed) = AUTHORITY.sign_agent(
        request,
        "web-1",
        CertificateSerial {
            enrollment: 7,
            number: 1,
        },
        CertificateLifetime::lasting(NOW, 100),
    ) {
        let peer = VerifiedPeer::of_pem(&signed).expect("the signed certificate is valid");
        assert_eq!(
            peer.name, "web-1",
            "the name is the server's, whatever the request says"
        );
    }
}

/// A valid request with edits: position and byte.
fn changed(changes: &[u8]) -> String {
    static REQUEST: LazyLock<Vec<u8>> =
        LazyLock::new(|| der(&SigningRequest::create().expect("a request").request_pem));
    let mut bytes = REQUEST.clone();
    for [low, high, byte] in changes.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        bytes[at] = *byte;
    }
    pem(&bytes)
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn pem(bytes: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE REQUEST-----\n");
    for (i, three) in bytes.chunks(3).enumerate() {
        let at = |n: usize| u32::from(three.get(n).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            let is_there = n <= three.len();
            let letter = LETTERS[(bits >> (18 - 6 * n)) as usize & 63];
            text.push(if is_there { char::from(letter) } else { '=' });
        }
        if i % 16 == 15 {
            text.push('\n');
        }
    }
    text + "\n-----END CERTIFICATE REQUEST-----\n"
}

fn der(pem: &str) -> Vec<u8> {
    let letters = pem
        .lines()
        .filter(|line| !line.starts_with('-'))
        .flat_map(str::bytes);
    let mut bits = 0u32;
    let mut held = 0;
    let mut bytes = Vec::new();
    for value in letters.filter_map(|letter| LETTERS.iter().position(|known| *known == letter)) {
        bits = bits << 6 | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

fuzz_target!(|input: &[u8]| match input {
    [0, rest @ ..] => sign(&String::from_utf8_lossy(rest)),
    [1, rest @ ..] => sign(&changed(rest)),
    [2, rest @ ..] => {
        let _ = VerifiedPeer::of(&rest.into());
    }
    [3, rest @ ..] => {
        let text = String::from_utf8_lossy(rest);
        let _ = VerifiedPeer::of_pem(&text);
        let _ = AuthorityPin::of_pem(&text);
        if let Ok(pin) = text.parse::<AuthorityPin>() {
            assert_eq!(pin.to_string(), text.to_lowercase());
        }
        let _ = identity::check_name(&text);
    }
    _ => {}
});
