export * from "./adamw.js";
export * from "./attention.js";
export * from "./clip.js";
export { copyAll_ } from "./foreach.js";
export * from "./layers.js";
export * from "./losses.js";
export { canPack, packWeight } from "./packed.js";
export * as schedules from "./schedules.js";
export * from "./weights.js";
