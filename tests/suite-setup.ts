import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Builds the program and makes a folder for files that many tests read, such as trained models. */
export default function prepareSuite(): (() => void) | undefined {
  // Vitest calls this once per project. The projects share one build and one folder.
  if (process.env.TEMPER_TEST_SHARED) return undefined;
  buildIfStale();
  const folder = mkdtempSync(join(tmpdir(), "temper-suite-"));
  process.env.TEMPER_TEST_SHARED = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

/** `make test` builds first, but `vitest` alone may find an old build or none. The compiler's output is shown. */
function buildIfStale(): void {
  if (!isStale()) return;
  const { status } = spawnSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
  if (status !== 0) console.error("The build failed. Tests use an old one, or fail.");
}

function isStale(): boolean {
  const files = readdirSync("src", { recursive: true, encoding: "utf8" });
  // Declarations are not compiled, and Vite bundles the page.
  const sources = files.filter((name) => /(?<!\.d)\.ts$/.test(name) && !name.startsWith(join("studio", "page")));
  return sources.some((source) => {
    const compiled = join("dist", source.replace(/\.ts$/, ".js"));
    return !existsSync(compiled) || statSync(compiled).mtimeMs < statSync(join("src", source)).mtimeMs;
  });
}
