//! From a query to proved rules: the requested packets, the composed rules, the model's result, and the errors.

mod asked;
mod bed;
mod composed;
mod networks;
mod wrong;
