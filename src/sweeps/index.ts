export { readSweepCell } from "./expand.js";
export { runSweep } from "./run-sweep.js";
