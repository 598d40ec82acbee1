// The views with charts, loaded as one chunk.
export { default as Chart } from "./chart";
export * from "./spread";
export * from "./map";
