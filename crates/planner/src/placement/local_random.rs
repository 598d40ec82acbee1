//! NetAlytics' local-random: a monitor's engine is one under the same aggregation switch with sufficient capacity,
//! otherwise a new one on a random host of the network.

use super::stage::EngineStage;
use crate::random::SeededRandom;
use crate::topology::{HostId, NetworkLoad};

/// Places engines.
pub(super) fn engage(
    stage: &mut EngineStage<'_>,
    load: &mut NetworkLoad<'_>,
    random: &mut SeededRandom,
) {
    let mut of_pod: Vec<Vec<u32>> = vec![Vec::new(); load.network.pods()];
    let pod = |host: HostId, load: &NetworkLoad<'_>| {
        usize::from(load.network.pod_of(load.network.rack_of(host)))
    };
    for index in 0..stage.sources.len() {
        let source = stage.sources[index];
        let here = &of_pod[pod(source.host, load)];
        let engine = match here
            .iter()
            .copied()
            .find(|engine| stage.fits(index, *engine, load))
        {
            Some(engine) => engine,
            None => {
                let Some(host) = load.random(random, |host| stage.could_open(host, &source, load))
                else {
                    continue;
                };
                let engine = stage.open(host, load);
                of_pod[pod(host, load)].push(engine);
                engine
            }
        };
        stage.give(index, engine, load);
    }
}
