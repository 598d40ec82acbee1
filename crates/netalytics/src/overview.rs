//! An overview of a capture: ordinary queries over one pass of its packets, and what they found on one screen.

pub mod advice;
pub mod found;
pub mod json;
pub mod layout;
pub mod questions;
pub mod rows;
pub mod screen;
