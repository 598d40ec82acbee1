//! `netalytics processors`: blocks of PROCESS with their arguments and an example of each.

use query::blocks::{ARGS, ArgDoc, BLOCKS, BlockDoc};
use query::{FUNCTIONS, FunctionDoc};

use super::listing;
use crate::cli::flags::{ListFlags, OutputFormat};
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Arguments of a block and an example query, which the language's table does not contain.
struct BlockUsage {
    block: &'static str,
    args: &'static [&'static str],
    example: &'static str,
}

const USAGES: &[BlockUsage] = &[
    usage("diff", &[], "PARSE tcp_conn_time PROCESS (diff-avg)"),
    usage(
        "group",
        &["group", "groups_max"],
        "PARSE http PROCESS (diff-group: group=url_template)",
    ),
    usage(
        "count",
        &[],
        "PARSE http PROCESS (group-count: group=client_ip)",
    ),
    usage(
        "sum",
        &["value"],
        "PARSE tcp_pkt_size PROCESS (group-sum: group=srcIP, destIP)",
    ),
    usage(
        "avg",
        &["value"],
        "PARSE http PROCESS (group-avg: group=url, value=response_bytes)",
    ),
    usage(
        "min",
        &["value"],
        "PARSE http PROCESS (group-min-max: group=url)",
    ),
    usage(
        "max",
        &["value"],
        "PARSE http PROCESS (group-min-max: group=url)",
    ),
    usage(
        "stddev",
        &["value"],
        "PARSE mysql_query PROCESS (group-avg-stddev: group=fingerprint)",
    ),
    usage("rate", &[], "PARSE http PROCESS (rate: w=10s)"),
    usage(
        "distinct",
        &["key"],
        "PARSE http PROCESS (distinct: key=client_ip)",
    ),
    usage(
        "quantile",
        &["value", "q"],
        "PARSE http PROCESS (group-quantile: group=url_template, q=0.5, 0.99)",
    ),
    usage("hist", &["value"], "PARSE memcached_get PROCESS (hist)"),
    usage("cdf", &["value"], "PARSE tcp_conn_time PROCESS (diff-cdf)"),
    usage(
        "success",
        &[],
        "PARSE http PROCESS (group-count-success: group=server_ip)",
    ),
    usage(
        "ratio",
        &["of"],
        "PARSE http PROCESS (group-ratio: group=host, of=(status >= 500) AS failed, (status >= 400) AS refused)",
    ),
    usage(
        "throughput",
        &["value"],
        "PARSE tcp_pkt_size PROCESS (group-throughput: group=srcIP, w=10s)",
    ),
    usage(
        "share",
        &["value"],
        "PARSE http PROCESS (group-count-share: group=url_template)",
    ),
    usage(
        "aggregate",
        &["columns"],
        "PARSE http PROCESS (group-aggregate: group=host, columns=count(*) AS n, p99(response_time))",
    ),
    usage(
        "top-k",
        &["k", "by", "key", "groups_max"],
        "PARSE http_get PROCESS (top-k: k=10, w=10s)",
    ),
    usage(
        "workload-profile",
        &["k", "key", "near", "groups_max"],
        "PARSE memcached PROCESS (workload-profile: w=60s)",
    ),
    usage(
        "service-map",
        &["groups_max"],
        "PARSE http PROCESS (service-map: w=10s)",
    ),
];

/// Arguments of every processor.
const WINDOW_ARGS: &[&str] = &["w", "slide", "lateness"];

const fn usage(
    block: &'static str,
    args: &'static [&'static str],
    example: &'static str,
) -> BlockUsage {
    BlockUsage {
        block,
        args,
        example,
    }
}

/// Lists the requested blocks.
pub fn list(flags: &ListFlags) -> anyhow::Result<CommandOutcome> {
    let chosen = listing::choose("block", BLOCKS, |b| b.name, &flags.names)?;
    match flags.format() {
        OutputFormat::Table => output::print(text(&chosen).as_bytes()),
        format => listing::print_rows(&["block", "doc", "args", "example"], &rows(&chosen), format),
    }
}

/// All blocks, as text.
pub fn everything() -> String {
    text(&BLOCKS.iter().collect::<Vec<_>>())
}

fn text(blocks: &[&BlockDoc]) -> String {
    let mut out = String::from(
        "A processor is a chain of blocks joined with -, and arguments: PROCESS (diff-group: group=url, w=10s)\n\
         Several processors, separated by commas, each give a result of their own. After each of them, HAVING, ORDER BY\n\
         and LIMIT n ROWS choose among its rows: PROCESS (diff-group) HAVING count > 9 ORDER BY p99 DESC LIMIT 20 ROWS\n\nBlocks:\n\n",
    );
    let item = |block: &&BlockDoc| {
        let reads = match usage_of(block).map_or(&[][..], |u| u.args) {
            [] => String::new(),
            args => format!(" (reads {})", args.join("=, ") + "="),
        };
        (block.name.to_owned(), format!("{}{reads}", block.doc))
    };
    listing::definitions(&mut out, &blocks.iter().map(item).collect::<Vec<_>>());
    out.push_str("\nArguments:\n\n");
    let reads = |arg: &&ArgDoc| {
        WINDOW_ARGS.contains(&arg.name)
            || blocks
                .iter()
                .any(|b| usage_of(b).is_some_and(|u| u.args.contains(&arg.name)))
    };
    let arg = |arg: &ArgDoc| {
        (
            format!("{}=", arg.name),
            format!("{} [default: {}]", arg.doc, arg.default),
        )
    };
    listing::definitions(
        &mut out,
        &ARGS.iter().filter(reads).map(arg).collect::<Vec<_>>(),
    );
    if blocks.len() == BLOCKS.len() {
        out.push_str("\nFunctions of values, in group=, value= and of=, and in SELECT, WHERE, HAVING and ORDER BY:\n\n");
        let function = |f: &FunctionDoc| (f.usage.to_owned(), f.doc.to_owned());
        listing::definitions(
            &mut out,
            &FUNCTIONS.iter().map(function).collect::<Vec<_>>(),
        );
    }
    out.push_str("\nExamples:\n\n");
    let example =
        |block: &&BlockDoc| Some((block.name.to_owned(), usage_of(block)?.example.to_owned()));
    listing::definitions(
        &mut out,
        &blocks.iter().filter_map(example).collect::<Vec<_>>(),
    );
    out
}

fn rows(blocks: &[&BlockDoc]) -> Vec<Vec<String>> {
    let row = |block: &&BlockDoc| {
        let usage = usage_of(block);
        let args = usage
            .map(|u| [u.args, WINDOW_ARGS].concat().join(" "))
            .unwrap_or_default();
        let example = usage.map(|u| u.example).unwrap_or_default();
        vec![
            block.name.to_owned(),
            block.doc.to_owned(),
            args,
            example.to_owned(),
        ]
    };
    blocks.iter().map(row).collect()
}

fn usage_of(block: &BlockDoc) -> Option<&'static BlockUsage> {
    USAGES.iter().find(|u| u.block == block.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_a_usage_that_is_right() {
        let schemas = ::parsers::registry::schemas();
        for block in BLOCKS {
            let usage = usage_of(block).unwrap_or_else(|| panic!("{} has no usage", block.name));
            assert!(usage.example.contains(block.name), "{}", usage.example);
            assert!(
                usage
                    .args
                    .iter()
                    .all(|a| ARGS.iter().any(|known| known.name == *a)),
                "{}",
                block.name
            );
            if let Err(errors) = query::check(usage.example, &schemas, &()) {
                panic!("{}", query::render(&errors, usage.example));
            }
        }
        for arg in ARGS {
            let read = WINDOW_ARGS.contains(&arg.name)
                || USAGES.iter().any(|u| u.args.contains(&arg.name));
            assert!(read || arg.name == "value", "no block reads {}", arg.name);
        }
    }
}
