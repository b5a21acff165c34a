import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

/** Names the test files that never ended. Vitest itself says only that a worker exited. */
export class CrashReporter implements Reporter {
  private readonly running = new Map<string, TestModule>();

  onTestModuleQueued(module: TestModule): void {
    this.running.set(module.id, module);
  }

  onTestModuleEnd(module: TestModule): void {
    this.running.delete(module.id);
  }

  onTestRunEnd(): void {
    for (const { moduleId } of this.running.values())
      console.error(`A process crashed while it ran ${relative(process.cwd(), moduleId)}.`);
    this.running.clear();
  }
}
