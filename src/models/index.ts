export * from "./config.js";
export * from "./encoder.js";
export { type HeadName, pool } from "./heads.js";
export * from "./input.js";
export * from "./load.js";
export * from "./model.js";
export { resolveModel } from "./reference.js";
export * from "./save.js";
