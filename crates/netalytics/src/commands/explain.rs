//! `netalytics explain QUERY`: the plan, without reading packets; with `--engine flink` the Flink SQL, with `--network`
//! the plan in a network.

use planner::PlanOptions;
use query::{CheckedQuery, ParsedText};
use serde_json::{Value, json};
use sinks::units;

use crate::cli::flags::ExplainFlags;
use crate::cli::flags::bus::MergeEngineFlag;
use crate::cli::flags::network::PlanFormat;
use crate::cli::query_text::CommandQuery;
use crate::client::server_client::ServerClient;
use crate::diagnose::no_rows;
use crate::kafka;
use crate::network;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;
use crate::render::hosts;
use crate::source::period;

/// Prints the plan.
pub fn explain(flags: &ExplainFlags) -> anyhow::Result<CommandOutcome> {
    let query = CommandQuery::read(&flags.text)?;
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let checked = match &flags.network.network {
        Some(_) => query.check_for_network(&names)?,
        None => query.check(&mut names, &[])?,
    };
    if flags.bus.engine == MergeEngineFlag::Flink {
        let told = kafka::read::statements(&checked, &flags.bus.asked())?;
        let said: String = told
            .iter()
            .map(|statement| format!("{statement};\n\n"))
            .collect();
        return output::print(output::visible_lines(said.trim_end()).as_bytes());
    }
    let options = PlanOptions {
        bounds: period::as_far_as_known(&checked),
        ..PlanOptions::default()
    };
    let plan = planner::lower_with(&checked, &options);
    if let Some(network) = &flags.network.network {
        if flags.server.is_some() {
            return Err(wrong_flags("--network and --server cannot be combined"));
        }
        let planned = network::plan::plan(&flags.network, network, &plan, checked.budget)?;
        let said = match flags.format {
            PlanFormat::Text => {
                planner::explain(&plan) + &planner::physical::to_text(&planned.plan)
            }
            PlanFormat::Json => format!("{:#}\n", planner::physical::to_json(&planned.plan)),
            PlanFormat::Svg => planner::physical::to_svg(&planned.plan, &planned.site),
        };
        return output::print(output::visible_lines(&said).as_bytes());
    }
    no_rows::never(&plan)
        .iter()
        .for_each(|reason| output::complain(&format!("note: {reason}")));
    let mut said = planner::explain(&plan) + &planner::explain_period(&checked);
    said += &other_spelling(query.parsed(), &checked);
    if let Some(server) = &flags.server {
        let remote = ServerClient::at(server, flags.token_file.as_deref(), flags.ca.as_deref())?;
        said += &estimates(&remote.json(
            "POST",
            "/api/v1/explain",
            Some(&json!({ "query": query.text() })),
        )?);
    }
    output::print(output::visible_lines(&said).as_bytes())
}

/// The query in the other of its two spellings.
fn other_spelling(parsed: &ParsedText, checked: &CheckedQuery) -> String {
    let (title, spelled) = if parsed.is_sql() {
        ("with PARSE", vec![Some(query::parse_spelling(parsed))])
    } else {
        ("in SQL", query::sql_spelling(parsed, checked))
    };
    let none = "SQL cannot express this processor";
    let lines = spelled
        .iter()
        .flat_map(|text| text.as_deref().unwrap_or(none).lines())
        .map(|line| format!("  {}\n", line.trim()));
    format!("{title}\n{}", lines.collect::<String>())
}

/// Estimated cost on each agent's host, one line each; without agents, on a host with a high packet rate.
fn estimates(answer: &Value) -> String {
    let line = |of: &Value, whose: &str| {
        let number = |name: &str| of[name].as_f64().unwrap_or(0.0);
        format!(
            "{whose}, with {} packets/s: about {:.2} cores, {} of memory, {}/s sent\n",
            number("packets_per_second"),
            number("cores"),
            units::bytes(number("memory_bytes")),
            units::bytes(number("sent_bytes_per_second")),
        )
    };
    let agents = answer["agents"].as_array().into_iter().flatten();
    let lines: String = agents
        .map(|of| {
            line(
                &of["estimate"],
                &format!("on agent {}", of["agent"].as_str().unwrap_or_default()),
            )
        })
        .collect();
    if lines.is_empty() {
        line(&answer["estimate"], "no agent is connected; on a host")
    } else {
        lines
    }
}
