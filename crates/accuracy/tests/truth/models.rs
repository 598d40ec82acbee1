//! The captures of the models are undamaged, so every transaction is exact.

use accuracy::model::MODELS;
use accuracy::{ObservedTuple, PacketRecording};

#[test]
fn all_of_an_undamaged_model_is_exact() {
    for model in MODELS {
        let recording: PacketRecording = model.recording();
        let told = recording.play(&recording.whole(), model.parser);
        let other: Vec<&ObservedTuple> = told.iter().filter(|told| !told.is_exact()).collect();
        println!("{}: {} packets, {} tuples", model.name, recording.len(), told.len());
        assert!(told.len() > 1000, "{}: {} tuples", model.name, told.len());
        assert!(other.is_empty(), "{}: {} of {}, as {}", model.name, other.len(), told.len(), other[0]);
    }
}
