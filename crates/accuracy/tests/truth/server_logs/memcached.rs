//! Output of `memcached -vv`: every requested key, and every key found.

use std::collections::HashMap;

use accuracy::ObservedTuple;

use super::{Log, check, live, number, text};

/// Number of hits and misses per key.
#[derive(Default)]
struct Memcached(HashMap<String, (usize, usize)>);

impl Memcached {
    fn read(log: &str) -> Memcached {
        let mut keys = Memcached::default();
        for line in log.lines() {
            let mut words = line.split_whitespace().skip(1);
            match (&line[..1], words.next()) {
                ("<", Some("get" | "gets")) => {
                    words.for_each(|key| keys.0.entry(key.to_owned()).or_default().1 += 1)
                }
                (">", Some("sending")) => {
                    let (found, missed) = keys
                        .0
                        .entry(words.nth(1).unwrap_or_default().to_owned())
                        .or_default();
                    *found += 1;
                    *missed -= 1;
                }
                _ => {}
            }
        }
        keys
    }
}

impl Log for Memcached {
    fn take(&mut self, pair: &ObservedTuple, _: i64) -> Result<(), String> {
        if !matches!(text(pair, "command"), Some("get" | "gets")) {
            return Ok(());
        }
        let Some(hit) = number(pair, "hit") else {
            return Ok(());
        };
        let Some(key) = text(pair, "cache_key") else {
            return Ok(());
        };
        let (found, missed) = self.0.get_mut(key).ok_or("nobody asked for it")?;
        let left = if hit == 1 { found } else { missed };
        *left = left.checked_sub(1).ok_or("that was not the answer")?;
        Ok(())
    }

    fn left(&self) -> usize {
        self.0.values().map(|(found, missed)| found + missed).sum()
    }
}

#[test]
fn text_protocol() {
    if let Some((capture, log)) = live("mc_text.pcap", "mc_text.memcached-vv.log") {
        check(&capture, "memcached", 5, || Memcached::read(&log));
    }
}
