//! An overview of a capture: several ordinary queries in one pass, with their results on one screen.

pub mod advice;
pub mod findings;
pub mod json;
pub mod layout;
pub mod queries;
pub mod rows;
pub mod screen;
