// Installs the npm packages when what lies in node_modules is not what package-lock.json asks for: `npm ci` was never run,
// was interrupted, or the lock changed. npm notes what it installed in node_modules/.package-lock.json, last of all.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** @typedef {Record<string, { version?: string, optional?: boolean, devOptional?: boolean }>} Packages */

/**
 * Why the packages must be installed; undefined when they are all there.
 * @param {string} root
 * @returns {string | undefined}
 */
export function whatIsAmiss(root) {
  if (!existsSync(join(root, "node_modules/.package-lock.json"))) return "they are not installed, or only in part";
  const wanted = readPackages(join(root, "package-lock.json"));
  const installed = readPackages(join(root, "node_modules/.package-lock.json"));
  for (const [folder, { version, optional, devOptional }] of Object.entries(wanted)) {
    if (folder === "") continue;
    // Packages for other platforms are in the lock but never installed.
    if (!(folder in installed) && (optional || devOptional)) continue;
    if (installed[folder]?.version !== version) return `package-lock.json asks for ${folder} ${version}`;
    if (!existsSync(join(root, folder, "package.json"))) return `${folder} is missing`;
  }
  return undefined;
}

/**
 * @param {string} file
 * @returns {Packages}
 */
function readPackages(file) {
  return JSON.parse(readFileSync(file, "utf8")).packages;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
  const reason = whatIsAmiss(root);
  if (reason) {
    console.error(`Installing the npm packages: ${reason}.`);
    process.exitCode = spawnSync("npm", ["ci"], { cwd: root, stdio: "inherit" }).status ?? 1;
  }
}
