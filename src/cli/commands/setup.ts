import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import { toFlag } from "../../base/shell.js";
import { packageRoot } from "../../tensor/native.js";
import { ExitCode } from "../command.js";

export const examples = ["temper setup", "temper setup --dry-run", "LIBTORCH=/opt/libtorch temper setup --force"];

export function define(command: Command): void {
  command
    .option("--libtorch <folder>", "use the libtorch in this folder, like the variable LIBTORCH")
    .option("--force", "build again even if nothing changed")
    .option("--dry-run", "print what would be done, and do nothing")
    .option("--json", "print the result as JSON")
    .action(({ libtorch, force, dryRun, json }) =>
      runSetup([
        ...(libtorch === undefined ? [] : ["--libtorch", libtorch]),
        ...Object.entries({ force, dryRun, json }).flatMap(([key, isGiven]) => (isGiven ? [toFlag(key)] : [])),
      ]),
    );
}

/**
 * The setup is a separate program, because it must run before anything is installed or compiled.
 */
async function runSetup(args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [join(packageRoot, "scripts/setup/setup.mjs"), ...args], { stdio: "inherit" });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  if (code !== 0) throw new ExitCode(code ?? 1);
}
