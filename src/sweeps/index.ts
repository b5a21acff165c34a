export { readSweepCell } from "./expand.js";
export { runSweep, type SweepRequest, type SweepResult } from "./run-sweep.js";
