// Installs temper-nlp for the GitHub Action, into a folder outside of the workspace: a pull request controls the files of
// the workspace. The archive must have the integrity that the workflow names, and no script of a package runs.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * @param {Readonly<Record<string, string | undefined>>} env
 * @returns {{ folder: string, version: string, integrity: string }}
 */
export function readInstallInputs(env) {
  const { RUNNER_TEMP = "", GITHUB_WORKSPACE = "", VERSION = "", INTEGRITY = "" } = env;
  if (!/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(VERSION))
    throw new Error(`version: expected an exact version such as 0.2.0, received ${JSON.stringify(VERSION)}.`);
  if (!/^sha512-[A-Za-z0-9+/]{86}==$/.test(INTEGRITY))
    throw new Error(
      `integrity: expected sha512-… of the package, received ${JSON.stringify(INTEGRITY)}. ` +
        `Print it with: npm view temper-nlp@${VERSION} dist.integrity`,
    );
  if (!isAbsolute(RUNNER_TEMP)) throw new Error("RUNNER_TEMP: expected the temporary folder of the runner.");
  const folder = resolve(RUNNER_TEMP, "temper-gate");
  const inside = relative(resolve(GITHUB_WORKSPACE || "."), folder);
  if (!inside.startsWith("..") && !isAbsolute(inside))
    throw new Error(`${folder} is inside of the workspace, whose files a pull request controls.`);
  return { folder, version: VERSION, integrity: INTEGRITY };
}

/**
 * @param {Buffer} archive
 * @param {string} integrity
 */
export function checkIntegrity(archive, integrity) {
  const received = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  if (received !== integrity) throw new Error(`temper-nlp has integrity ${received}, expected ${integrity}.`);
}

/** @param {Readonly<Record<string, string | undefined>>} env */
function install(env) {
  const { folder, version, integrity } = readInstallInputs(env);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  const options = /** @type {import("node:child_process").ExecFileSyncOptionsWithStringEncoding} */ ({
    ...{ cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] },
  });
  const packed = execFileSync("npm", ["pack", "--json", "--ignore-scripts", `temper-nlp@${version}`], options);
  const archive = join(folder, JSON.parse(packed)[0].filename);
  checkIntegrity(readFileSync(archive), integrity);
  // The data package has the sentence encoder of the default attack.
  const packages = [archive, `temper-nlp-demo@${version}`];
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages], options);
  execFileSync(process.execPath, ["node_modules/temper-nlp/dist/cli/main.js", "setup"], {
    cwd: folder,
    stdio: "inherit",
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) install(process.env);
