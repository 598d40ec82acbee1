// Views opened from an answer, loaded as one chunk: a number, a comparison, a file.
export { default as Drill } from "./drill";
export { Compare } from "./compare";
export { finding, hand, picture } from "./finding";
