// Installs the npm packages if node_modules does not match package-lock.json: `npm ci` was never run, was interrupted, or the
// lock has changed. npm writes node_modules/.package-lock.json last, so it shows what was installed completely.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** @typedef {Record<string, { version?: string, link?: boolean, optional?: boolean, devOptional?: boolean }>} Packages */

/**
 * Returns why the packages must be installed, or undefined if they are complete.
 * @param {string} root
 * @returns {string | undefined}
 */
export function findReasonToInstall(root) {
  if (!existsSync(join(root, "node_modules/.package-lock.json"))) return "they are missing or incomplete";
  const wanted = readPackages(join(root, "package-lock.json"));
  const installed = readPackages(join(root, "node_modules/.package-lock.json"));
  for (const [folder, { version, link, optional, devOptional }] of Object.entries(wanted)) {
    // The package itself and its workspaces. Their dependencies have entries of their own.
    if (!folder.includes("node_modules/") || link) continue;
    // Packages for other platforms are in the lock but never installed.
    if (!(folder in installed) && (optional || devOptional)) continue;
    if (installed[folder]?.version !== version) return `package-lock.json requires ${folder} ${version}`;
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
  const reason = findReasonToInstall(root);
  if (reason) {
    console.error(`Installing the npm packages: ${reason}.`);
    process.exitCode = spawnSync("npm", ["ci"], { cwd: root, stdio: "inherit" }).status ?? 1;
  }
}
