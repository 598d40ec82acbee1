//! Arbitrary text as a query, with PARSE or in SQL: no panic, every position is within the text, and accepted queries can
//! be planned and explained, and are accepted in the other spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use query::{HostTable, ParsedText};

fuzz_target!(|text: &str| {
    let schemas = parsers::registry::schemas();
    match query::check(text, &schemas, &HostTable::default()) {
        Ok(query) => {
            let plan = planner::lower(&query);
            assert!(!planner::explain(&plan).is_empty());
            let parsed = ParsedText::new(text);
            let statements = query::sql_spelling(&parsed, &query);
            for other in statements
                .into_iter()
                .flatten()
                .chain([query::parse_spelling(&parsed)])
            {
                let again = query::check(&other, &schemas, &HostTable::default());
                assert!(again.is_ok(), "{other}");
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            let _ = query::render(&errors, text);
        }
    }
});
