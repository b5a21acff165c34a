export { averaged, gradientsOf, totalOf } from "./base.js";
export { type BatchMode, epochBatches } from "./batches.js";
export * from "./dataset.js";
export * from "./job.js";
export type * from "./layer.js";
export * from "./predict.js";
export { type TrainSettings, trainSettingsSchema } from "./settings.js";
export { Stack } from "./stack.js";
export { train } from "./trainer.js";
