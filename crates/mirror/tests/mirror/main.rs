//! From a query to rules that are proved: what is asked, what is composed, what the model finds, and what is told when it is wrong.

mod asked;
mod bed;
mod composed;
mod networks;
mod wrong;
