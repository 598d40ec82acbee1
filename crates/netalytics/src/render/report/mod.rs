//! A report as one self-contained HTML file: the query, the input, the rows, and pictures of them. It has no scripts
//! and makes no requests; the page of `netalytics serve` saves files of the same kind (`web/src/finding.ts`).

mod account;
mod bar_chart;
mod chart_selection;
mod distribution;
mod heatmap;
mod html;
mod line_chart;
pub mod page;
mod repro_command;
pub mod rows;
mod service_graph;
mod svg;
mod table;
