import { relative } from "node:path";
import type { Reporter, TestCase, TestModule, TestSuite } from "vitest/node";
import { formatRepeatCommand } from "../tools/cpus/repeat-command.mjs";

/** The names of a test and the groups around it. */
function listNames(test: TestCase): string[] {
  const names = [test.name];
  let parent: TestSuite | TestModule = test.parent;
  while (parent.type === "suite") {
    names.unshift(parent.name);
    parent = parent.parent;
  }
  return names;
}

/** Prints how to repeat each failed test if a variable such as TEMPER_JITTER changes the last bits of results. */
export class RepeatReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const commands = modules.flatMap((module) => {
      const file = relative(process.cwd(), module.moduleId);
      const failed = [...module.children.allTests("failed")].map(listNames);
      if (module.state() === "failed" && failed.length === 0) failed.push([]);
      return failed.flatMap((names) => formatRepeatCommand(process.env, file, names) ?? []);
    });
    if (commands.length > 0) console.error(`Repeat what failed:\n${commands.map((line) => `  ${line}`).join("\n")}`);
  }
}
