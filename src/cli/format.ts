export * from "../format.js";
