// Views opened from an answer, loaded as one chunk: a number, a comparison, a file.
export { default as Drill } from "./drill";
export { Compare } from "./comparison_table";
export { finding, hand, picture } from "./saved_file";
