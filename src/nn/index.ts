export { DropoutSeeds } from "./forward-mode.js";
export { canUseFp8, hasFp8Weight, prepareFp8Weight, withRoundedRows } from "./fp8-dense.js";
export { hasFusedAdamW } from "./fused-adamw.js";
export { canAttendShort, type EmbeddedTokens, embeddingNorm, selectMixtures, shortAttention } from "./fused-layers.js";
export { type CpuPrecision, canPrepare, getMaxInputLevel, prepareWeight } from "./prepared-dense.js";
export * from "./public.js";
