//! Queries in a network: the plan, the processes on its hosts, the mirror rules and exporters on its switches. Also the discovery of a
//! network, the calibration of costs, and the output of the placement study.

pub mod calibration;
pub mod discovery;
pub mod exporters;
pub mod exports;
pub mod jobs;
pub mod plan;
pub mod run;
pub mod study_output;
pub mod switch_access;
