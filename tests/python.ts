import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";

/**
 * A Python with these modules, for tests beside the official libraries: TEMPER_PYTHON, the project's own or the one on PATH. Null
 * where there is none; such tests then skip and say so.
 */
export function findPython(...modules: string[]): string | null {
  const candidates = [process.env.TEMPER_PYTHON, ".venv/bin/python", "python3", "python"];
  for (const python of candidates) {
    if (!python || (python.includes("/") && !existsSync(python))) continue;
    try {
      // Only looked for: importing them takes seconds.
      const program = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))";
      execFileSync(python, ["-c", program, ...modules], { stdio: "ignore" });
      return python;
    } catch {
      // The next one may have them.
    }
  }
  return null;
}

/** Runs a Python program and gives what it printed as JSON. */
export function runPython(python: string, program: string, ...parameters: string[]): unknown {
  return JSON.parse(execFileSync(python, ["-c", program, ...parameters], { encoding: "utf8" }));
}
