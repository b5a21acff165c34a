import { join } from "node:path";
import { packageRoot } from "../tensor/native.js";

/** The program that worker processes run. */
export const temperProgram: readonly string[] = [process.execPath, join(packageRoot, "dist", "cli", "main.js")];
