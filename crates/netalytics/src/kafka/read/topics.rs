//! Selection of topics for a query: their records, and the properties reported by their publishers.

use std::collections::BTreeMap;

use bus::lanes::log::{CaptureBytes, LaneLog, LaneStanding};
use bus::{TopicAdmin, tuples};
use plan::{Plan, SampleMode};
use runner::bus::{self as crossing, TopicRecords};
use stream::Engine;
use stream::cells::CellOrigin;

use crate::cli::flags::bus::PublishContentFlag;
use crate::process::failure::wrong_flags;

/// A topic and its role in the query.
pub struct PublishedTopic {
    pub name: String,
    pub holds: TopicContent,
    /// Partitions with an active publisher.
    pub live: Vec<i32>,
}

/// Content of a topic, with its index in the dataflow.
#[derive(Clone, Copy)]
pub enum TopicContent {
    /// Tuples of an input.
    Tuples(usize),
    /// Cells of a pipeline.
    Cells(usize),
}

/// Topics with the cells of all of the query's pipelines, if they exist.
pub fn of_cells(
    plan: &Plan,
    there: &TopicAdmin,
    asked: Option<PublishContentFlag>,
) -> anyhow::Result<Option<Vec<PublishedTopic>>> {
    let mut topics = Vec::new();
    for pipeline in 0..plan.dataflow.pipelines.len() {
        let name = crossing::cells(&plan.monitor, &plan.dataflow, pipeline);
        match there.partitions(&name)? {
            Some(_) => topics.push(PublishedTopic {
                name,
                holds: TopicContent::Cells(pipeline),
                live: Vec::new(),
            }),
            None if asked.is_some() => {
                return Err(wrong_flags(format!(
                    "no cells of this query are published: topic {name} does not exist; run netalytics publish with the same query"
                )));
            }
            None => return Ok(None),
        }
    }
    Ok(Some(topics).filter(|topics| !topics.is_empty()))
}

/// Topics with the tuples of the query's parsers.
pub fn of_tuples(plan: &Plan, there: &TopicAdmin) -> anyhow::Result<Vec<PublishedTopic>> {
    let all = there.list()?;
    let mut topics = Vec::new();
    for (input, of) in plan.dataflow.inputs.iter().enumerate() {
        let name = crossing::tuples(&of.schema);
        let parser = &of.schema.name;
        if !all.contains_key(&name) {
            let others = all
                .keys()
                .filter(|topic| topic.starts_with(&format!("netalytics.{parser}.v")));
            let others: Vec<&str> = others.map(String::as_str).collect();
            return Err(wrong_flags(if others.is_empty() {
                format!(
                    "no {parser} tuples are published: topic {name} does not exist; run netalytics publish 'PARSE {parser}'"
                )
            } else {
                format!(
                    "topic {name} does not exist; {} comes from another version of netalytics, which can read it",
                    others.join(", ")
                )
            }));
        }
        if let Some((_, family, key)) = of.schema.members().find(|(id, ..)| of.columns.contains(id))
        {
            return Err(wrong_flags(format!(
                "published tuples of {parser} have no {family}.{key}: publish the cells of this query (netalytics publish with the same query)"
            )));
        }
        topics.push(PublishedTopic {
            name,
            holds: TopicContent::Tuples(input),
            live: Vec::new(),
        });
    }
    Ok(topics)
}

/// Sampling of published data; each tuple has the sampling rate of its flow.
pub fn sample(
    asked: &SampleMode,
    log: &LaneLog,
    topics: &[PublishedTopic],
) -> anyhow::Result<SampleMode> {
    let now_ms = log.last_ms();
    let lanes = topics
        .iter()
        .flat_map(|topic| log.of_topic(&topic.name, now_ms));
    let is_sampled = lanes
        .filter_map(|(known, _)| known.entry.about.get("sample"))
        .any(|sample| sample != "all");
    sampled(asked, is_sampled)
}

/// Sampling of tuples, given whether they were published as a sample.
pub fn sampled(asked: &SampleMode, is_sampled: bool) -> anyhow::Result<SampleMode> {
    match (asked, is_sampled) {
        (SampleMode::All, false) => Ok(SampleMode::All),
        (SampleMode::All | SampleMode::Auto, true) => Ok(SampleMode::Auto),
        _ => Err(wrong_flags(
            "SAMPLE chooses flows by their packets: published tuples keep the sampling rate of their \
             publisher, and results are scaled by it",
        )),
    }
}

/// Decoder of the records in the topic of this name.
///
/// # Panics
/// If a cell's column has a type without an encoding, which is a bug.
pub fn records(
    topics: &[PublishedTopic],
    plan: &Plan,
    name: &str,
    engine: &Engine,
) -> TopicRecords {
    let holds = || {
        topics
            .iter()
            .filter(|topic| topic.name == name)
            .map(|topic| topic.holds)
    };
    let tuples = holds().find_map(|of| {
        if let TopicContent::Tuples(input) = of {
            Some(input)
        } else {
            None
        }
    });
    if let Some(input) = tuples {
        let of = &plan.dataflow.inputs[input];
        let decoder = tuples::TupleDecoder::new(&of.schema, |id| of.columns.contains(&id));
        return TopicRecords::Tuples(input, Box::new(decoder));
    }
    let pipelines: Vec<usize> = holds()
        .filter_map(|of| {
            if let TopicContent::Cells(pipeline) = of {
                Some(pipeline)
            } else {
                None
            }
        })
        .collect();
    let schema = engine.cell_table(pipelines[0]).arrow(CellOrigin::Sent);
    let decoder = avro::AvroDecoder::new(&schema, |_| true).expect("cells have a form");
    TopicRecords::Cells(pipelines, Box::new(decoder))
}

/// Determines the partitions with an active publisher.
pub fn find_live(topics: &mut [PublishedTopic], log: &LaneLog, now_ms: i64) {
    for topic in topics {
        let lanes = log
            .of_topic(&topic.name, now_ms)
            .filter(|(_, standing)| *standing == LaneStanding::Live);
        topic.live = lanes.map(|(known, _)| known.entry.partition).collect();
    }
}

/// Capture loss of lanes that have ended since `since_ms`; active publishers have not reported it yet.
pub fn lost(log: &LaneLog, topics: &[PublishedTopic], since_ms: i64) -> f64 {
    let lanes = topics
        .iter()
        .flat_map(|topic| log.of_topic(&topic.name, log.last_ms()));
    let captures: BTreeMap<&str, CaptureBytes> = lanes
        .filter(|(known, _)| known.at_ms >= since_ms)
        .filter_map(|(known, _)| Some((known.entry.lane.as_str(), known.entry.capture?)))
        .collect();
    let unseen: u64 = captures.values().map(|capture| capture.unseen_bytes).sum();
    let seen: u64 = captures.values().map(|capture| capture.seen_bytes).sum();
    if unseen == 0 {
        0.0
    } else {
        unseen as f64 / (seen + unseen) as f64
    }
}
