import { join } from "node:path";
import { packageRoot } from "../tensor/native.js";

export const temperProgram: readonly string[] = [process.execPath, join(packageRoot, "dist", "cli", "main.js")];
