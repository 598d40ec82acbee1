// Views opened from an answer, loaded as one chunk: a number, a comparison, an alert rule, a file.
export { default as Drill } from "./drill";
export { default as AlertOn } from "./alert_on";
export { Compare, Differences } from "./comparison_table";
export { finding, hand, picture } from "./saved_file";
