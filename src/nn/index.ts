export { DropoutSeeds } from "./forward-mode.js";
export { hasFusedAdamW } from "./fused-adamw.js";
export { canAttendShort, type EmbeddedTokens, embeddingNorm, selectMixtures, shortAttention } from "./fused-layers.js";
export { type CpuPrecision, canPrepare, getMaxInputLevel, prepareWeight } from "./prepared-dense.js";
export * from "./public.js";
