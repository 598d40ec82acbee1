//! A finding as one file that stands alone: what was asked, what was read, the rows, and pictures of them. It has no script and asks
//! nobody for anything; the page of `netalytics serve` saves files of the same kind (`web/src/finding.ts`).

mod account;
mod again;
mod bars;
mod fitting;
mod graph;
mod heat;
mod html;
mod lines;
pub mod page;
pub mod rows;
mod spread;
mod svg;
mod table;
