//! An overview of a capture: several ordinary queries in one pass, with their results on one screen.

pub mod advice;
pub mod found;
pub mod json;
pub mod layout;
pub mod questions;
pub mod rows;
pub mod screen;
