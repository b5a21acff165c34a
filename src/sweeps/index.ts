export { readSweepCell, type SweepCellSource } from "./expand.js";
export { planSweep, runSweep, type SweepRequest, type SweepResult, sweepRequestSchema } from "./run-sweep.js";
