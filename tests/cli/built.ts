import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** The program as it is installed. */
export const main = "dist/cli/main.js";

/** `make test` builds first, but `vitest` alone may find an old build or none. One process builds, the others wait. */
export function buildIfStale(): void {
  if (!isStale()) return;
  const build = ["npm", "run", "--silent", "build"] as const;
  const locked = spawnSync("flock", ["build/test-build.lock", ...build], { stdio: "ignore" });
  if (locked.error) spawnSync(build[0], build.slice(1), { stdio: "ignore" });
}

function isStale(): boolean {
  const files = readdirSync("src", { recursive: true, encoding: "utf8" });
  // Declarations are not compiled.
  const sources = files.filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"));
  return sources.some((source) => {
    const compiled = join("dist", source.replace(/\.ts$/, ".js"));
    return !existsSync(compiled) || statSync(compiled).mtimeMs < statSync(join("src", source)).mtimeMs;
  });
}
