//! One query at work: starts the job, hands its rows to the sink, shows how it goes, and sums up at the end.

use std::io;
use std::time::{Duration, Instant};

use monitor::job::Config;
use monitor::{Input, Job, Step};
use plan::Plan;
use sinks::{ResultHead, Sink, distinct_names};
use stream::Output;

use crate::progress::Progress;
use crate::stats::Stats;
use crate::summary::{InputError, Summary};

/// Rows are flushed at least this often while rows come.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// The display is looked after this often while nothing comes.
const PATIENCE: Duration = Duration::from_millis(50);

/// A query at work.
pub struct Run {
    job: Job,
    started: Instant,
    results: Vec<Output>,
    rows: u64,
    flushed: Instant,
    names_told: usize,
}

/// What is shown while it runs.
pub struct Display {
    /// How far reading has come.
    pub progress: Progress,
    /// How the workers are.
    pub stats: Stats,
    /// Rows are flushed as soon as they are known.
    pub prompt: bool,
}

impl Run {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(plan: &Plan, config: &Config, input: Input) -> io::Result<Run> {
        let started = Instant::now();
        let job = Job::start(plan, config, input)?;
        Ok(Run { job, started, results: Vec::new(), rows: 0, flushed: started, names_told: 0 })
    }

    /// What rows will come. Of joined tuples the columns are known with the first of them only.
    pub fn heads(&self, plan: &Plan) -> Vec<ResultHead> {
        let names = distinct_names(plan.dataflow.pipelines.iter().map(|p| p.name.as_str()));
        let head = |(i, name)| {
            let fields = &self.job.engine().result_schema(i).fields;
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

    /// Waits until the input has ended, or LIMIT is reached, and all rows are written.
    ///
    /// # Errors
    /// The sink's; reading stops there. What goes wrong with inputs is in the summary.
    pub fn go(&mut self, sink: &mut dyn Sink, display: &mut Display) -> io::Result<()> {
        let result = self.take_results(sink, display);
        display.progress.finish(self.position());
        result
    }

    /// Ends it, and says what has happened.
    pub fn end(self, plan: &Plan) -> Summary {
        let ended = self.job.end();
        let error = |e: &capture::SourceError| InputError {
            path: e.path.display().to_string(),
            offset: e.offset,
            text: e.to_string(),
            after_packets: e.after_packets,
        };
        Summary {
            query: plan.query.clone(),
            accounting: ended.accounting,
            source: ended.source,
            stream: ended.stream,
            rows: self.rows,
            seen: ended.seen,
            limit_reached: ended.limit_reached,
            sampling: ended.sampling,
            errors: ended.errors.iter().map(error).collect(),
            panics: ended.panics,
            output_error: None,
            elapsed: self.started.elapsed(),
        }
    }

    fn take_results(&mut self, sink: &mut dyn Sink, display: &mut Display) -> io::Result<()> {
        loop {
            let step = self.job.next(PATIENCE, &mut self.results);
            if !self.results.is_empty() {
                self.deliver(sink, display)?;
            }
            if step == Step::Done {
                return sink.finish();
            }
            display.progress.tick(|| self.position());
            display.stats.tick(|| self.job.readings(), &display.progress);
        }
    }

    fn position(&self) -> (u64, Option<u64>) {
        self.job.readings().first().map(|reading| reading.position).unwrap_or_default()
    }

    fn deliver(&mut self, sink: &mut dyn Sink, display: &Display) -> io::Result<()> {
        for (ip, name) in &self.job.names()[self.names_told..] {
            sink.learn_name(*ip, name);
        }
        self.names_told = self.job.names().len();
        let (results, rows) = (&mut self.results, &mut self.rows);
        display.progress.aside(|| -> io::Result<()> {
            for Output { pipeline, batch } in results.drain(..) {
                sink.write(pipeline.unwrap_or(0), &batch)?;
                *rows += batch.rows() as u64;
            }
            Ok(())
        })?;
        if display.prompt || self.flushed.elapsed() >= FLUSH_EVERY {
            display.progress.aside(|| sink.flush())?;
            self.flushed = Instant::now();
        }
        Ok(())
    }
}
