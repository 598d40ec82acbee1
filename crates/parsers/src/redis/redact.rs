//! Redaction of commands and errors: recordings keep the vocabulary of Redis, not user input.

use tuple::{RedactionSecret, TextFold};

use super::commands::is_known;

/// Redaction of command names: a name that is not a Redis command becomes a hash.
pub const COMMAND_WORDS: TextFold = TextFold {
    name: "command",
    fold: command,
};
/// Redaction of errors: keeps the code, `ERR` or `WRONGTYPE`; the text after it may repeat the request.
pub const ERROR_CODE: TextFold = TextFold {
    name: "error_code",
    fold: error,
};

fn command(secret: &RedactionSecret, name: &[u8], out: &mut Vec<u8>) {
    if is_known(name) {
        out.extend_from_slice(name)
    } else {
        secret.push_hash(name, out)
    }
}

fn error(secret: &RedactionSecret, text: &[u8], out: &mut Vec<u8>) {
    let code = text.split(|b| *b == b' ').next().unwrap_or_default();
    if code.iter().all(u8::is_ascii_uppercase) {
        out.extend_from_slice(code)
    } else {
        secret.push_hash(text, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_text_is_hashed() {
        let secret = RedactionSecret::new(&[7; 16]);
        let check = |fold: TextFold, text: &str, kept: Option<&str>| {
            let mut got = Vec::new();
            let mut hash = Vec::new();
            (fold.fold)(&secret, text.as_bytes(), &mut got);
            secret.push_hash(text.as_bytes(), &mut hash);
            assert_eq!(got, kept.map_or(&hash[..], str::as_bytes), "{text}");
        };
        check(COMMAND_WORDS, "GET", Some("GET"));
        check(COMMAND_WORDS, "INVALIDATE", Some("INVALIDATE"));
        check(COMMAND_WORDS, "ALICE@EXAMPLE.ORG", None);
        check(
            ERROR_CODE,
            "ERR unknown command 'alice', with args beginning with: 'bob'",
            Some("ERR"),
        );
        check(
            ERROR_CODE,
            "WRONGPASS invalid username-password pair",
            Some("WRONGPASS"),
        );
        check(ERROR_CODE, "Alice is not here", None);
    }
}
