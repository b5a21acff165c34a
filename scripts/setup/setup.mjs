#!/usr/bin/env node
// Finds or installs libtorch, builds the addon against it and proves that it works. Needs nothing but Node: it runs before
// `npm ci` as well as from the published package (`npx temper setup`).
import { realpathSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { buildAddon, buildFolder, completeBuild, verifyAddon, whatToBuild } from "./build.mjs";
import { installDebian, slowness } from "./debian.mjs";
import { findLibtorch, SOURCE_NAMES } from "./find.mjs";
import { installLibtorch } from "./install.mjs";
import { messageOf, SetupError } from "./process.mjs";
import { failureMessage } from "./remedies.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/**
 * @typedef {object} SetupOptions
 * @property {string} root the package's folder
 * @property {Environment} env
 * @property {(line: string) => void} log
 * @property {boolean} [force] build again even if nothing changed
 * @property {boolean} [dryRun] only say what would be done
 * @property {boolean} [system] the system's libtorch alone; on Debian it is installed when missing
 */
/**
 * @typedef {object} SetupResult
 * @property {Libtorch | undefined} libtorch undefined: a dry run that would install one
 * @property {import("./find.mjs").Rejected[]} rejected
 * @property {string} addon
 * @property {("install" | "build")[]} actions what was done, or would be
 */

/** The package's folder. */
export const packageRoot = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/**
 * @param {SetupOptions} options
 * @returns {SetupResult}
 */
export function setup(options) {
  const { root, env, log, force = false, dryRun = false } = options;
  if (process.platform !== "linux")
    throw new SetupError(`Temper runs on Linux (x64, arm64); this is ${process.platform}`);
  const folder = buildFolder(root, env);
  const addon = join(folder, "temper.node");
  const unchanged = (/** @type {Libtorch} */ libtorch) => !force && whatToBuild(root, folder, libtorch) === "nothing";
  const search = options.system ? { root, env, only: /** @type {["system"]} */ (["system"]) } : { root, env };

  // What was built before need not be tried library by library: loading the addon tries all of it.
  let { libtorch, rejected } = findLibtorch({ ...search, trusted: unchanged });
  if (libtorch && unchanged(libtorch)) {
    const failure = verifyAddon(folder, libtorch, env);
    if (!failure) return { libtorch, rejected, addon, actions: [] };
    log(`The addon no longer works (${failure}): setting up again.`);
    ({ libtorch, rejected } = findLibtorch(search));
  }

  for (const { path, source, reason } of rejected)
    log(`Passed over the libtorch of ${SOURCE_NAMES[source]} (${path}): ${reason}.`);
  // A libtorch that was named is never replaced by another: where it does not serve, someone has to look.
  if (!libtorch && rejected.some(({ source }) => source === "LIBTORCH"))
    throw new SetupError(failureMessage(rejected, []));
  if (dryRun) return { libtorch, rejected, addon, actions: libtorch ? ["build"] : ["install", "build"] };
  /** @type {SetupResult["actions"]} */
  const actions = ["build"];
  if (!libtorch) {
    const installed = options.system ? installDebian(options, []) : installLibtorch(options);
    if (!installed.libtorch) throw new SetupError(failureMessage(rejected, installed.attempts));
    libtorch = installed.libtorch;
    actions.unshift("install");
  }
  log(`Building ${relative(root, addon)} against ${describe(libtorch)}`);
  if (libtorch.withoutCuda) log(`For the CPU alone, although a GPU is here: ${libtorch.withoutCuda}.`);
  buildAddon({ root, folder, libtorch, env, clean: force || whatToBuild(root, folder, libtorch) !== "sources" });
  const failure = verifyAddon(folder, libtorch, env);
  if (failure)
    throw new SetupError(
      failureMessage([...rejected, { ...libtorch, reason: `the addon built against it fails: ${failure}` }], []),
    );
  completeBuild(root, folder, libtorch);
  return { libtorch, rejected, addon, actions };
}

/** @param {Libtorch} libtorch */
function describe({ version, source, path, cuda }) {
  return `libtorch ${version} of ${SOURCE_NAMES[source]} (${path})${cuda ? ", for the GPU" : ""}`;
}

const HELP = `Usage: setup.mjs [--libtorch PATH] [--system] [--force] [--dry-run] [--json]

Finds libtorch (LIBTORCH, the Python on PATH, .venv, .torch, the system's) or installs it, and builds the native addon.

  --libtorch PATH  use the libtorch in this folder (as the variable LIBTORCH does)
  --system         use the system's libtorch alone; installs Debian's packages if they are missing
  --force          build again even if nothing changed
  --dry-run        say what would be done, do nothing
  --json           print the result as JSON
Variables: LIBTORCH, TEMPER_TORCH (version to install), TEMPER_CUDA (1 or 0: with or without a GPU), TEMPER_BUILD (folder)`;

/** @param {string[]} args */
function main(args) {
  const flag = /** @type {const} */ ({ type: "boolean", default: false });
  const { values } = parseArgs({
    args,
    options: { libtorch: { type: "string" }, system: flag, force: flag, "dry-run": flag, json: flag, help: flag },
  });
  if (values.help) return console.log(HELP);
  const env = { ...process.env, ...(values.libtorch && { LIBTORCH: values.libtorch }) };
  const log = (/** @type {string} */ line) => console.error(line);
  const dryRun = values["dry-run"];
  const result = setup({ root: packageRoot, env, log, force: values.force, dryRun, system: values.system });
  const { libtorch, actions } = result;
  if (values.json) return console.log(JSON.stringify(result, null, 2));
  if (dryRun) {
    const first = libtorch ? `use ${describe(libtorch)}` : "install libtorch";
    log(`Would ${first}, and ${actions.includes("build") ? "build the addon" : "have nothing to build"}.`);
  } else {
    log(`The engine is ready: ${describe(/** @type {Libtorch} */ (libtorch))}`);
  }
  for (const advice of libtorch && !values.system ? slowness(libtorch) : []) log(`Note: ${advice}`);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    const mistyped = error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
    if (!(error instanceof SetupError || mistyped)) throw error;
    console.error(messageOf(error));
    process.exitCode = 2;
  }
}
