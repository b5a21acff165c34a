import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Makes a folder for files that many tests read, such as trained models. It lives as long as the suite. */
export default function createSharedFolder(): (() => void) | undefined {
  // Vitest calls this once per project. The projects share a folder.
  if (process.env.TEMPER_TEST_SHARED) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "temper-suite-"));
  process.env.TEMPER_TEST_SHARED = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
