//! One query over one source: packets to the monitor, its tuples to the engine, the engine's rows to the sink.

use std::io;
use std::time::{Duration, Instant};

use capture::{Block, Source};
use monitor::{Monitor, Progress as Going};
use plan::{Plan, Sample};
use sinks::{ResultHead, Sink, distinct_names};
use stream::{Engine, Output};
use tuple::Batch;
use wire::Timestamp;

use crate::progress::Progress;
use crate::summary::{InputError, Summary};

/// Rows are flushed at least this often while rows come.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// A query at work.
pub struct Run {
    source: Box<dyn Source>,
    block: Block,
    monitor: Monitor,
    engine: Engine,
    started: Instant,
    tuples: Vec<(usize, Batch)>,
    results: Vec<Output>,
    advanced: Timestamp,
    rows: u64,
    flushed: Instant,
    names_told: usize,
    limit_reached: bool,
}

impl Run {
    /// Everything ready, nothing read yet.
    pub fn new(
        plan: &Plan,
        monitor: monitor::Config,
        stream: stream::Config,
        source: Box<dyn Source>,
    ) -> Run {
        let sample = match plan.monitor.sample {
            Sample::Fraction(p) => p,
            Sample::All | Sample::Auto => 1.0,
        };
        Run {
            source,
            block: Block::default(),
            monitor: Monitor::new(&plan.monitor, monitor),
            engine: Engine::new(&plan.dataflow, stream::Config { sample, ..stream }),
            started: Instant::now(),
            tuples: Vec::new(),
            results: Vec::new(),
            advanced: Timestamp::MIN,
            rows: 0,
            flushed: Instant::now(),
            names_told: 0,
            limit_reached: false,
        }
    }

    /// What rows will come. Of joined tuples the columns are known with the first of them only.
    pub fn heads(&self, plan: &Plan) -> Vec<ResultHead> {
        let names = distinct_names(plan.dataflow.pipelines.iter().map(|p| p.name.as_str()));
        let head = |(i, name)| {
            let fields = &self.engine.result_schema(i).fields;
            ResultHead { processor: Some(name), columns: fields.iter().map(|f| f.name.to_string()).collect() }
        };
        match &plan.dataflow.inputs[..] {
            _ if !names.is_empty() => names.into_iter().enumerate().map(head).collect(),
            [input] => {
                let columns =
                    input.columns.iter().map(|id| input.schema.field(*id).name.to_string()).collect();
                vec![ResultHead { processor: None, columns }]
            }
            _ => vec![ResultHead { processor: None, columns: Vec::new() }],
        }
    }

    /// Reads to the end, or to LIMIT. With `prompt` rows are flushed as soon as they are known.
    ///
    /// # Errors
    /// The sink's; reading stops there. What goes wrong with inputs is in the summary.
    pub fn go(&mut self, sink: &mut dyn Sink, progress: &mut Progress, prompt: bool) -> io::Result<()> {
        let result = self.read(sink, progress, prompt);
        progress.finish(self.source.progress());
        result
    }

    /// What has happened so far.
    pub fn summary(&self, plan: &Plan) -> Summary {
        let error = |e: &capture::SourceError| InputError {
            path: e.path.display().to_string(),
            offset: e.offset,
            text: e.to_string(),
            after_packets: e.after_packets,
        };
        Summary {
            query: plan.query.clone(),
            accounting: self.monitor.accounting(),
            source: self.source.counters(),
            stream: self.engine.counters(),
            rows: self.rows,
            seen: self.monitor.seen(),
            limit_reached: self.limit_reached,
            errors: self.source.errors().iter().map(error).collect(),
            output_error: None,
            elapsed: self.started.elapsed(),
        }
    }

    fn read(&mut self, sink: &mut dyn Sink, progress: &mut Progress, prompt: bool) -> io::Result<()> {
        while let Some(going) = self.take_packets() {
            self.analyse();
            if !self.results.is_empty() {
                self.deliver(sink, progress, prompt)?;
            }
            progress.tick(|| self.source.progress());
            if going == Going::LimitReached {
                self.limit_reached = true;
                break;
            }
        }
        self.monitor.finish(&mut self.tuples);
        self.analyse();
        self.engine.finish(&mut self.results);
        self.deliver(sink, progress, prompt)?;
        sink.finish()
    }

    /// The next packets go through the monitor; `None` at the end of the input.
    fn take_packets(&mut self) -> Option<Going> {
        if !self.source.next_block(&mut self.block) {
            return None;
        }
        Some(self.monitor.on_packets(self.block.packets(), &mut self.tuples))
    }

    /// Tuples that are due go through the engine.
    fn analyse(&mut self) {
        for (input, tuples) in self.tuples.drain(..) {
            self.engine.push(input, &tuples, &mut self.results);
        }
        let watermark = self.monitor.watermark();
        if watermark > self.advanced {
            self.advanced = watermark;
            self.engine.advance(watermark.0, &mut self.results);
        }
    }

    fn deliver(&mut self, sink: &mut dyn Sink, progress: &Progress, prompt: bool) -> io::Result<()> {
        for (ip, name) in &self.source.names()[self.names_told..] {
            sink.learn_name(*ip, name);
        }
        self.names_told = self.source.names().len();
        let (results, rows) = (&mut self.results, &mut self.rows);
        progress.aside(|| -> io::Result<()> {
            for Output { pipeline, batch } in results.drain(..) {
                sink.write(pipeline.unwrap_or(0), &batch)?;
                *rows += batch.rows() as u64;
            }
            Ok(())
        })?;
        if prompt || self.flushed.elapsed() >= FLUSH_EVERY {
            progress.aside(|| sink.flush())?;
            self.flushed = Instant::now();
        }
        Ok(())
    }
}
