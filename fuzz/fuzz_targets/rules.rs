//! Any text as what a switch dumps, and any JSON as a controller's rule: an error is an answer, a panic is not. What is read and printed
//! reads the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mirror::openflow::{Rule, read_dump, read_rule};

/// Printed and read again it stays what it is, where OpenFlow has such a match: later readings lose nothing.
fn again(rule: &Rule) {
    if rule.matched.check().is_err() {
        return;
    }
    let printed = rule.to_string();
    let read = read_rule(&printed).expect("a printed rule is one");
    assert_eq!(read.to_string(), printed);
}

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    if let Ok(rules) = read_dump(&text) {
        rules.iter().for_each(again);
    }
    if let Ok(value) = serde_json::from_slice(input)
        && let Ok(rule) = mirror::json::rule_from_json(&value)
    {
        again(&rule);
    }
});
