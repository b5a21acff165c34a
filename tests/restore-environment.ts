import { afterAll, vi } from "vitest";
import { takeTurn } from "../src/base/event-loop.js";

const folder = process.cwd();

// Files share a process. What one file changes in it must not reach the next.
afterAll(async () => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
  process.chdir(folder);
  // The time of the last turn may come from a clock that a test replaced. It would be in the future, and no turn due.
  await takeTurn();
});
