import { basename, extname, join } from "node:path";
import { type RunConfig, toMethodSpecs } from "./config.js";

/** The methods of a run in one word: r-drop+rose; standard where there is none. */
export function getMethodName({ methods: method }: Pick<RunConfig, "methods">): string {
  const names = toMethodSpecs(method).map(({ name }) => name);
  return names.filter((name) => name !== "standard").join("+") || "standard";
}

/** The task of a run in one word that can stand in a path; for a table of the user's own, the file's name. */
export function getTaskName({ task, data }: Pick<RunConfig, "task" | "data">): string {
  const own = task === null && data !== null && !data.startsWith("hf:");
  const name = own ? basename(data, extname(data)) : (task ?? data ?? "task").replace(/^hf:/, "");
  return name.replace(/[^\w.-]+/g, "-");
}

/** Where a run goes that was given no folder. */
export function getDefaultRunFolder(config: RunConfig): string {
  return join("runs", `${getTaskName(config)}-${getMethodName(config)}-seed${config.seed}`);
}
