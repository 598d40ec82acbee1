// The views that draw, which are loaded together.
export { default as Chart } from "./chart";
export * from "./spread";
export * from "./map";
