// What opens from an answer, which is loaded together: a number, a comparison, a file.
export { default as Drill } from "./drill";
export { Compare } from "./compare";
export { finding, hand, picture } from "./finding";
