//! Arbitrary text as a switch's dump, and arbitrary JSON as a controller's rule: errors are allowed, panics are not.
//! Accepted rules round-trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mirror::openflow::{FlowRule, read_dump, read_rule};

/// A printed rule is parsed unchanged if OpenFlow can express its match.
fn again(rule: &FlowRule) {
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
