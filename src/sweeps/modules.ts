import { resolve } from "node:path";
import { z } from "zod";
import { UserError } from "../errors.js";
import type { MethodDefinition, MethodSpec } from "../methods/index.js";

/**
 * What to do with the modules that a sweep file names: refuse them, import them, or plan without
 * them (a dry run executes no code of a file).
 */
export type CodeTrust = "refuse" | "import" | "skip";

export interface ModulePolicy {
  readonly code: CodeTrust;
  /** Paths are relative to the folder of the sweep file. */
  readonly folder: string;
}

/** Whether the name of an attack or of a method is the path of a module. */
export function isModulePath(name: string): boolean {
  return /\.[cm]?[jt]s$/.test(name);
}

/** Returns the absolute path of a module, and other names as they are. */
export function resolveModule(name: string, { code, folder }: ModulePolicy, location: string): string {
  if (!isModulePath(name)) return name;
  if (code === "refuse")
    throw new UserError(`${location}: ${name} is code. Read it, then pass --allow-code to run it.`);
  return resolve(folder, name);
}

/** Stands for methods that are planned without importing them. Their options are not checked. */
export function createPlaceholders(specs: readonly MethodSpec[], { code }: ModulePolicy): MethodSpec[] {
  if (code !== "skip") return [];
  return specs
    .filter(({ name }) => isModulePath(name))
    .map(({ name, options }) => ({ name, options, definition: createPlaceholder(name) }));
}

function createPlaceholder(name: string): MethodDefinition {
  return {
    name,
    summary: "a custom method",
    paper: "",
    options: z.looseObject({}),
    create() {
      throw new Error(`${name} was not imported`);
    },
  };
}
