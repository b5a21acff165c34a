export { createAdam } from "./adam.js";
export * from "./adamw.js";

export { dropout } from "./dropout.js";
export { DropoutSeeds } from "./dropout-seeds.js";
export * from "./foreach.js";
export type { ForwardMode } from "./forward-mode.js";
export { hasFusedAdamW } from "./fused-adamw.js";
export { canAttendShort, type EmbeddedTokens, embeddingNorm, selectMixtures, shortAttention } from "./fused-layers.js";
export * from "./layers.js";
export * from "./losses.js";
export * from "./multi-tensor.js";
export { type CpuPrecision, canPrepare, getMaxInputLevel, prepareWeight } from "./prepared-dense.js";
export * as schedules from "./schedules.js";
export * from "./weights.js";
