//! Redaction of unknown commands: the first word of a line may be anything, including part of a value.

use tuple::{RedactionSecret, TextFold};

use super::command::is_known_name;

/// Redaction of command names: a name that is not a memcached command becomes a hash.
pub const COMMAND_WORDS: TextFold = TextFold {
    name: "command",
    fold: command,
};

fn command(secret: &RedactionSecret, name: &[u8], out: &mut Vec<u8>) {
    if is_known_name(name) {
        out.extend_from_slice(name)
    } else {
        secret.push_hash(name, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_hashes() {
        let secret = RedactionSecret::new(&[7; 16]);
        for (name, is_kept) in [
            ("get", true),
            ("mg", true),
            ("getkq", true),
            ("GET", false),
            ("alice@example.org", false),
        ] {
            let mut got = Vec::new();
            let mut hash = Vec::new();
            (COMMAND_WORDS.fold)(&secret, name.as_bytes(), &mut got);
            secret.push_hash(name.as_bytes(), &mut hash);
            assert_eq!(
                got,
                if is_kept { name.as_bytes() } else { &hash[..] },
                "{name}"
            );
        }
    }
}
