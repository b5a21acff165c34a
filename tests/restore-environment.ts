import { afterAll, vi } from "vitest";

const folder = process.cwd();

// Files share a process. What one file changes in it must not reach the next.
afterAll(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
  process.chdir(folder);
});
