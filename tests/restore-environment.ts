import { afterAll, vi } from "vitest";

// Files share a process. Variables that one file sets must not reach the next.
afterAll(() => {
  vi.unstubAllEnvs();
});
