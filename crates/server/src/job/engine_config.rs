//! Settings of the engines that merge or describe the results of a plan.

use plan::{Plan, SampleMode};
use stream::EngineConfig;

/// Configuration of the engines for a plan, as in monitors.
pub fn engine_config(plan: &Plan, window_bytes_max: usize) -> EngineConfig {
    let sample = match plan.monitor.sample {
        SampleMode::Fraction(p) => p,
        SampleMode::All | SampleMode::Auto | SampleMode::Exported => 1.0,
    };
    let sample_seed = plan.monitor.sample_seed;
    EngineConfig {
        sample,
        sample_seed,
        window_bytes_max,
        ..EngineConfig::default()
    }
}
