//! Several independent dataflows over the same packets, each with its own engine. Inputs and pipelines are numbered
//! consecutively over all dataflows. A single dataflow behaves like its engine.

mod cells;

use plan::Dataflow;
use tuple::Batch;

use crate::config::{EngineConfig, EngineCounters};
use crate::empty_windows::EmptyWindows;
use crate::engine::{Engine, EngineOutput, OutputConsumer};
use crate::limited_stretches::LimitedStretch;
use crate::loss_history::LossStretch;
use crate::partial::bytes::{PartialReader, put_bytes, put_len};
use crate::partial::{MalformedPartial, PartialResult};

/// Engines of several dataflows. Methods correspond to those of [`Engine`].
pub struct EngineSet(Vec<NumberedEngine>);

/// One engine with its numbering.
struct NumberedEngine {
    engine: Engine,
    /// Number of its first input.
    input: usize,
    /// Number of its first pipeline.
    pipeline: usize,
}

/// The detached partial result of each engine of a worker.
#[derive(Debug)]
pub struct PartialResultSet(Vec<Option<PartialResult>>);

impl EngineSet {
    /// As [`Engine::new`], with the memory divided between the engines.
    #[must_use]
    pub fn new(dataflows: &[Dataflow], config: &EngineConfig) -> EngineSet {
        EngineSet::build(dataflows, config, Engine::new)
    }

    /// As [`Engine::worker`].
    #[must_use]
    pub fn worker(dataflows: &[Dataflow], config: &EngineConfig) -> EngineSet {
        EngineSet::build(dataflows, config, Engine::worker)
    }

    fn build(
        dataflows: &[Dataflow],
        config: &EngineConfig,
        make: fn(&Dataflow, EngineConfig) -> Engine,
    ) -> EngineSet {
        assert!(!dataflows.is_empty(), "there is something to be computed");
        let n = dataflows.len();
        let config = EngineConfig {
            window_bytes_max: config.window_bytes_max / n,
            join_rows_max: config.join_rows_max.div_ceil(n),
            join_bytes_max: config.join_bytes_max / n,
            ..config.clone()
        };
        let mut input = 0;
        let mut pipeline = 0;
        let part = |dataflow: &Dataflow| {
            let part = NumberedEngine {
                engine: make(dataflow, config.clone()),
                input,
                pipeline,
            };
            input += dataflow.inputs.len();
            pipeline += dataflow.pipelines.len();
            part
        };
        EngineSet(dataflows.iter().map(part).collect())
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Engine> {
        self.0.iter_mut().map(|part| &mut part.engine)
    }

    /// As [`Engine::push`].
    pub fn push(&mut self, input: usize, batch: &Batch, out: &mut dyn OutputConsumer) {
        let at = self.0.partition_point(|part| part.input <= input) - 1;
        let NumberedEngine {
            engine,
            input: first,
            pipeline,
        } = &mut self.0[at];
        engine.push(
            input - *first,
            batch,
            &mut RenumberedOutput {
                out,
                first: *pipeline,
            },
        );
    }

    /// As [`Engine::advance`].
    pub fn advance(&mut self, watermark_ns: i64, out: &mut dyn OutputConsumer) {
        self.each(out, |engine, out| engine.advance(watermark_ns, out));
    }

    /// As [`Engine::begin_run`].
    pub fn begin_run(&mut self, now_ns: i64) {
        self.all().for_each(|engine| engine.begin_run(now_ns));
    }

    /// As [`Engine::pass`].
    pub fn pass(&mut self, now_ns: i64, out: &mut dyn OutputConsumer) {
        self.each(out, |engine, out| engine.pass(now_ns, out));
    }

    /// As [`Engine::make_room`].
    pub fn make_room(&mut self, out: &mut dyn OutputConsumer) {
        self.each(out, |engine, out| engine.make_room(out));
    }

    /// As [`Engine::finish`].
    pub fn finish(&mut self, out: &mut dyn OutputConsumer) {
        self.each(out, |engine, out| engine.finish(out));
    }

    fn each(
        &mut self,
        out: &mut dyn OutputConsumer,
        act: impl Fn(&mut Engine, &mut dyn OutputConsumer),
    ) {
        for NumberedEngine {
            engine, pipeline, ..
        } in &mut self.0
        {
            act(
                engine,
                &mut RenumberedOutput {
                    out,
                    first: *pipeline,
                },
            );
        }
    }

    /// As [`Engine::add_loss`].
    pub fn add_loss(&mut self, stretch: LossStretch) {
        self.all().for_each(|engine| engine.add_loss(stretch));
    }

    /// As [`Engine::add_limited`].
    pub fn add_limited(&mut self, limited: LimitedStretch) {
        self.all().for_each(|engine| engine.add_limited(limited));
    }

    /// As [`Engine::take_limited`], combined over all engines.
    #[must_use]
    pub fn take_limited(&mut self) -> Option<LimitedStretch> {
        self.all()
            .map(Engine::take_limited)
            .fold(None, LimitedStretch::union)
    }

    /// As [`Engine::detach`].
    pub fn detach(&mut self, watermark_ns: i64) -> Option<PartialResultSet> {
        PartialResultSet::of(self.all().map(|engine| engine.detach(watermark_ns)))
    }

    /// As [`Engine::detach_early`].
    pub fn detach_early(&mut self, bytes: usize) -> Option<PartialResultSet> {
        let bytes = bytes / self.0.len();
        PartialResultSet::of(self.all().map(|engine| engine.detach_early(bytes)))
    }

    /// As [`Engine::detach_open`].
    pub fn detach_open(&mut self) -> Option<PartialResultSet> {
        PartialResultSet::of(self.all().map(Engine::detach_open))
    }

    /// As [`Engine::detach_all`].
    pub fn detach_all(&mut self) -> PartialResultSet {
        PartialResultSet(self.all().map(|engine| Some(engine.detach_all())).collect())
    }

    /// As [`Engine::begin_at`].
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: &[Option<i64>]) {
        for NumberedEngine {
            engine, pipeline, ..
        } in &mut self.0
        {
            engine.begin_at(watermark_ns, latest_ns.get(*pipeline..).unwrap_or_default());
        }
    }

    /// As [`Engine::over_at`].
    #[must_use]
    pub fn over_at(&self, partials: &PartialResultSet) -> Option<i64> {
        let each = self.0.iter().zip(&partials.0);
        each.filter_map(|(part, partial)| part.engine.over_at(partial.as_ref()?))
            .max()
    }

    /// As [`Engine::peek`]; `None` if any engine exceeds its share of `bytes_max`.
    #[must_use]
    pub fn peek(&self, bytes_max: usize) -> Option<PartialResultSet> {
        let bytes_max = bytes_max / self.0.len();
        let peeks: Option<Vec<PartialResult>> = self
            .0
            .iter()
            .map(|part| part.engine.peek(bytes_max))
            .collect();
        peeks.map(|peeks| PartialResultSet(peeks.into_iter().map(Some).collect()))
    }

    /// As [`Engine::open_rows`].
    pub fn open_rows(&mut self, peeks: &[&PartialResultSet], out: &mut dyn OutputConsumer) {
        for (
            i,
            NumberedEngine {
                engine, pipeline, ..
            },
        ) in self.0.iter_mut().enumerate()
        {
            let of_engine: Vec<&PartialResult> =
                peeks.iter().filter_map(|peek| peek.0[i].as_ref()).collect();
            engine.open_rows(
                &of_engine,
                &mut RenumberedOutput {
                    out,
                    first: *pipeline,
                },
            );
        }
    }

    /// As [`Engine::attach`].
    pub fn attach(&mut self, partials: PartialResultSet) {
        for (engine, partial) in self.all().zip(partials.0) {
            partial
                .into_iter()
                .for_each(|partial| engine.attach(partial));
        }
    }

    /// As [`Engine::decode_partial`], for the output of [`PartialResultSet::encode`].
    ///
    /// # Errors
    /// If the partial result of any engine is rejected.
    pub fn decode_partials(&self, bytes: &[u8]) -> Result<PartialResultSet, MalformedPartial> {
        let mut from = PartialReader::new(bytes);
        if from.len()? != self.0.len() {
            return Err(MalformedPartial::OtherDataflow("the number of dataflows"));
        }
        let decode = |part: &NumberedEngine| {
            if from.flag()? {
                part.engine.decode_partial(from.bytes()?).map(Some)
            } else {
                Ok(None)
            }
        };
        let partials = self.0.iter().map(decode).collect::<Result<_, _>>()?;
        if from.left() > 0 {
            Err(MalformedPartial::Invalid("its length"))
        } else {
            Ok(PartialResultSet(partials))
        }
    }

    /// As [`Engine::counters`], summed over all engines.
    #[must_use]
    pub fn counters(&self) -> EngineCounters {
        let mut counters = EngineCounters::default();
        self.0
            .iter()
            .for_each(|part| counters.add(&part.engine.counters()));
        counters
    }

    /// As [`Engine::silences`] over all engines, only for pipelines with windows.
    #[must_use]
    pub fn silences(&self) -> Vec<EmptyWindows> {
        let all = self.0.iter().flat_map(|part| part.engine.silences());
        all.filter(|silence| silence.windows > 0).cloned().collect()
    }

    /// The engine of the first dataflow; a query has only this one.
    #[must_use]
    pub fn first(&self) -> &Engine {
        &self.0[0].engine
    }
}

impl From<Engine> for EngineSet {
    fn from(engine: Engine) -> EngineSet {
        EngineSet(vec![NumberedEngine {
            engine,
            input: 0,
            pipeline: 0,
        }])
    }
}

impl PartialResultSet {
    /// The non-empty partial results.
    pub fn each(&self) -> impl Iterator<Item = &PartialResult> {
        self.0.iter().flatten()
    }

    fn of(partials: impl Iterator<Item = Option<PartialResult>>) -> Option<PartialResultSet> {
        let partials: Vec<_> = partials.collect();
        partials
            .iter()
            .any(Option::is_some)
            .then_some(PartialResultSet(partials))
    }

    /// Encodes the number of engines, and for each either 1 with the length and bytes of [`PartialResult::encode`], or 0.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_len(&mut out, self.0.len());
        for partial in &self.0 {
            out.push(u8::from(partial.is_some()));
            partial
                .iter()
                .for_each(|partial| put_bytes(&mut out, &partial.encode()));
        }
        out
    }

    /// As [`PartialResult::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().flatten().map(PartialResult::bytes).sum()
    }
}

/// Renumbers output rows by the pipeline number over all engines.
struct RenumberedOutput<'o> {
    out: &'o mut dyn OutputConsumer,
    first: usize,
}

impl OutputConsumer for RenumberedOutput<'_> {
    fn take(&mut self, output: EngineOutput) {
        self.out.take(EngineOutput {
            pipeline: output.pipeline.map(|i| i + self.first),
            ..output
        });
    }
}
