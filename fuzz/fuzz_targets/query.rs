//! Arbitrary text as a query: no panic, every position is within the text, and accepted queries can be planned and
//! explained.
#![no_main]

use libfuzzer_sys::fuzz_target;
use query::HostTable;

fuzz_target!(|text: &str| {
    let schemas = parsers::registry::schemas();
    match query::check(text, &schemas, &HostTable::default()) {
        Ok(query) => {
            let plan = planner::lower(&query);
            assert!(!planner::explain(&plan).is_empty());
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            let _ = query::render(&errors, text);
        }
    }
});
