import { existsSync, realpathSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { getErrorMessage, UserError } from "./errors.js";

/**
 * The author of the settings that name a module (`./my-method.js`). It matters, because naming it runs its code.
 * "user": the person who runs Temper; the module is imported. "data": a file that may come from
 * somebody else; the module is refused. "none": nothing is imported, and what the module defines
 * stays unchecked (a dry run).
 */
export type Trust = "user" | "data" | "none";

/** The folder of the modules that settings name, and whether they may be imported. */
export interface ModulePolicy {
  readonly trust: Trust;
  /** Paths of modules are relative to this folder. */
  readonly folder: string;
}

/** The path of a module of the user's: `./mine.js`. */
export type ModulePath = `${string}.${"" | "c" | "m"}${"js" | "ts"}`;

/** A name, a name with options (`rose:variant=first`), or a module in its place. */
export type Reference<Name extends string> = Name | ModulePath | `${Name | ModulePath}:${string}`;

/** Returns true if the name of an attack or of a method is the path of a module. */
export function isModulePath(name: string): boolean {
  return /\.[cm]?[jt]s$/.test(name);
}

/** Returns the absolute path of a module, and other names as they are. Refuses code of a data file. */
export function resolveModule(name: string, { trust, folder }: ModulePolicy, location: string): string {
  if (!isModulePath(name)) return name;
  if (trust === "data") throw new UserError(`${location}: ${name} is code. Read it, then pass --allow-code to run it.`);
  return resolve(folder, name);
}

/** Imports a module of the user's and returns its default export. `what` names it in messages. */
export async function importDefault(path: string, what: string): Promise<unknown> {
  const module: { readonly default?: unknown } = await import(pathToFileURL(resolve(path)).href).catch(
    (error: unknown) => {
      throw new UserError(`${what} ${path}: cannot load the file: ${getErrorMessage(error)}`, { cause: error });
    },
  );
  return module.default;
}

/**
 * Refuses data in which any text names a module, in whatever key: as a path, or as a path with
 * options (`./x.js:samples=5`).
 */
export function rejectModules(data: unknown, trust: Trust, location: string): void {
  if (trust === "user") return;
  if (typeof data === "string") {
    const name = data.replace(/(\.[cm]?[jt]s):.*$/s, "$1");
    resolveModule(name, { trust: "data", folder: "." }, location);
  }
  if (typeof data !== "object" || data === null) return;
  for (const [key, value] of Object.entries(data))
    rejectModules(value, trust, Array.isArray(data) ? location : `${location}: ${key}`);
}

/** Refuses options of sbatch from a data file. Many of them can run code or write files. */
export function rejectSlurmOptions([option]: readonly string[], trust: Trust, location: string): void {
  if (trust === "user" || option === undefined) return;
  throw new UserError(
    `${location}: slurm.options: ${option} is for sbatch, which can run code. Pass it as --sbatch=${option}, or pass ` +
      "--allow-code.",
  );
}

/** Refuses a file to write that a data file names, except those below the folders that the caller names. */
export function rejectOutputs(data: object, trust: Trust, folders: readonly string[], location: string): void {
  if (trust === "user") return;
  for (const [key, value] of Object.entries(data)) {
    if (key === "saveDataset" && typeof value === "string" && !isBelow(value, folders))
      throw new UserError(
        `${location}: ${key}: ${value} is not below ${folders.join(" or ") || "a folder of the caller"}.`,
      );
    if (typeof value === "object" && value !== null) rejectOutputs(value, trust, folders, location);
  }
}

/**
 * Returns true if a path, which need not exist, is below one of the folders. Links are followed, so a link
 * inside a folder does not lead out of it.
 */
export function isBelow(path: string, folders: readonly string[]): boolean {
  let existing = resolve(path);
  while (!existsSync(existing)) existing = dirname(existing);
  const real = join(realpathSync(existing), relative(existing, resolve(path)));
  return folders.some((folder) => real.startsWith(`${realpathSync(folder)}${sep}`));
}
