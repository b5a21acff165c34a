import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** `make test` builds first, but `vitest` alone may find an old build or none. The compiler's output is shown. */
export default function buildIfStale(): void {
  if (!isStale()) return;
  const { status } = spawnSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
  if (status !== 0) throw new Error("The build failed. Tests that start the program need it.");
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
