import { createHash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { vi } from "vitest";
import { loadTask } from "../../src/tasks/index.js";
import type { Task } from "../../src/tasks/task.js";
import { waitForLock } from "../wait-for-lock.js";

/**
 * Sets TEMPER_CACHE to a folder that has the decoded emails of the spam task, and returns the task.
 * Decoding takes many seconds, so one process does it, and later suites find its result unless the
 * source has changed.
 */
export async function loadSpamTask(): Promise<Task> {
  const source = readFileSync("src/tasks/spam.ts");
  const revision = createHash("sha256").update(source).digest("hex").slice(0, 12);
  const folder = resolve("node_modules", ".cache", `temper-tests-${revision}`);
  mkdirSync(folder, { recursive: true });
  vi.stubEnv("TEMPER_CACHE", folder);
  const release = await waitForLock(`${folder}.lock`);
  try {
    const task = await loadTask({ task: "spam" });
    await task.load("test");
    return task;
  } finally {
    release();
  }
}
