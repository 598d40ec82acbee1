//! Redaction: source of the key.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use sinks::{RedactedSink, Sink};
use tuple::{RedactionSecret, Redactor};

use crate::process::failure::wrong_flags;

/// The key in a file, or a random one.
pub fn secret(file: Option<&Path>) -> anyhow::Result<RedactionSecret> {
    let mut key = [0; 16];
    let Some(path) = file else {
        let random = Path::new("/dev/urandom");
        let read = File::open(random).and_then(|mut random| random.read_exact(&mut key));
        read.with_context(|| format!("cannot read {}", random.display()))?;
        return Ok(RedactionSecret::new(&key));
    };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let digits = text.trim();
    let number = u128::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.len() == 32);
    let number = number.ok_or_else(|| {
        wrong_flags(format!(
            "{} is not a key: expected 32 hexadecimal digits, as from `openssl rand -hex 16`",
            path.display()
        ))
    })?;
    Ok(RedactionSecret::new(&number.to_be_bytes()))
}

/// Adds redaction in front of a sink if there is a secret.
pub fn behind(sink: impl Sink + 'static, secret: Option<RedactionSecret>) -> Box<dyn Sink> {
    match secret {
        Some(secret) => Box::new(RedactedSink::new(sink, Redactor::new(secret))),
        None => Box::new(sink),
    }
}
