// The views with charts, loaded as one chunk.
export { default as Chart } from "./time_chart";
export * from "./distribution";
export * from "./heat_map";
export * from "./map";
