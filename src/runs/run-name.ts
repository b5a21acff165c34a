import { join } from "node:path";
import { formatMethodNames, type RunConfig } from "../settings/config.js";
import { formatDataName } from "../tasks/custom-task.js";

/** A task's name that is safe in a path; for a file of the user's, the file's name. */
export function formatTaskName({ task, data }: Pick<RunConfig, "task" | "data">): string {
  const isFile = task === null && data !== null && !data.startsWith("hf:");
  const name = isFile ? formatDataName(data) : (task ?? data ?? "task").replace(/^hf:/, "");
  return name.replace(/[^\w.-]+/g, "-");
}

export function getDefaultRunFolder(config: RunConfig): string {
  return join("runs", `${formatTaskName(config)}-${formatMethodNames(config)}-seed${config.seed}`);
}
