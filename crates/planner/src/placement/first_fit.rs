//! NetAlytics' first fit: a new engine on a random host is created only if no existing engine has capacity for the
//! monitor.

use super::stage::EngineStage;
use crate::random::SeededRandom;
use crate::topology::NetworkLoad;

/// Places engines.
pub(super) fn engage(
    stage: &mut EngineStage<'_>,
    load: &mut NetworkLoad<'_>,
    random: &mut SeededRandom,
) {
    for index in 0..stage.sources.len() {
        let source = stage.sources[index];
        let engines = 0..stage.engines().len() as u32;
        let engine = match engines
            .into_iter()
            .find(|engine| stage.fits(index, *engine, load))
        {
            Some(engine) => engine,
            None => {
                let Some(host) = load.random(random, |host| stage.could_open(host, &source, load))
                else {
                    continue;
                };
                stage.open(host, load)
            }
        };
        stage.give(index, engine, load);
    }
}
