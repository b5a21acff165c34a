#!/usr/bin/env node
// Finds or installs libtorch, builds the addon against it and verifies it. It needs only Node, so
// it runs before `npm ci` and from the published package (`npx temper setup`).
import { realpathSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { buildAddon, completeBuild, decideWhatToBuild, getBuildFolder, verifyAddon } from "./build.mjs";
import { findLibtorch, SOURCE_NAMES } from "./find.mjs";
import { installLibtorch } from "./install.mjs";
import { installPrebuilt, PREBUILT_PACKAGE } from "./prebuilt.mjs";
import { getErrorMessage, SetupError } from "./process.mjs";
import { formatFailure } from "./remedies.mjs";

/** @typedef {import("./process.mjs").Environment} Environment */
/** @typedef {import("./inspect.mjs").Libtorch} Libtorch */
/**
 * @typedef {object} SetupOptions
 * @property {string} root the folder of the package
 * @property {Environment} env
 * @property {(line: string) => void} log
 * @property {boolean} [force] rebuild even if nothing changed
 * @property {boolean} [dryRun] only print what would be done
 * @property {boolean} [onlyLibtorch] find or install libtorch, but build nothing
 */
/**
 * @typedef {object} SetupResult
 * @property {Libtorch | undefined} libtorch undefined if a dry run would install one
 * @property {import("./find.mjs").Rejected[]} rejected
 * @property {string} addon
 * @property {("install" | "build")[]} actions the actions that were or would be done
 */

/** The folder of the package. */
export const packageRoot = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/**
 * @param {SetupOptions} options
 * @returns {SetupResult}
 */
export function setup(options) {
  const { root, env, log, force = false, dryRun = false, onlyLibtorch = false } = options;
  if (process.platform !== "linux")
    throw new SetupError(`Temper runs on Linux (x64, arm64); this is ${process.platform}`);
  const folder = getBuildFolder(root, env);
  const addon = join(folder, "temper.node");
  const unchanged = (/** @type {Libtorch} */ libtorch) =>
    !force && decideWhatToBuild(root, folder, libtorch) === "nothing";

  // An existing build is not probed library by library, because loading the addon checks all of
  // them.
  let { libtorch, rejected } = findLibtorch({ root, env, trusted: unchanged });
  if (libtorch && unchanged(libtorch)) {
    const failure = verifyAddon(folder, libtorch, env);
    if (!failure) return { libtorch, rejected, addon, actions: [] };
    log(`The addon no longer works (${failure}). Setting up again.`);
    ({ libtorch, rejected } = findLibtorch({ root, env }));
  }

  for (const { path, source, reason } of rejected)
    log(`Skipped libtorch in ${SOURCE_NAMES[source]} (${path}): ${reason}.`);
  // LIBTORCH is the user's choice, so do not replace it if it does not work.
  if (!libtorch && rejected.some(({ source }) => source === "LIBTORCH"))
    throw new SetupError(formatFailure(rejected, []));
  if (dryRun) return { libtorch, rejected, addon, actions: libtorch ? ["build"] : ["install", "build"] };
  /** @type {SetupResult["actions"]} */
  const actions = ["build"];
  if (!libtorch) {
    const installed = installLibtorch(options);
    if (!installed.libtorch) throw new SetupError(formatFailure(rejected, installed.attempts));
    libtorch = installed.libtorch;
    actions.unshift("install");
  }
  if (onlyLibtorch) return { libtorch, rejected, addon, actions: actions.filter((action) => action !== "build") };
  const prebuilt = !force && installPrebuilt({ root, folder, libtorch, env, log });
  if (prebuilt) {
    const failure = verifyAddon(folder, libtorch, env);
    if (!failure) {
      completeBuild(root, folder, libtorch, true);
      log(`Using the prebuilt addon of ${PREBUILT_PACKAGE}.`);
      return { libtorch, rejected, addon, actions: actions.filter((action) => action !== "build") };
    }
    log(`The prebuilt addon does not work (${failure}). Compiling it instead.`);
  }
  log(`Building ${relative(root, addon)} against ${describe(libtorch)}`);
  if (libtorch.withoutCuda) log(`Building for the CPU only, although there is a GPU: ${libtorch.withoutCuda}.`);
  buildAddon({ root, folder, libtorch, env, clean: force || decideWhatToBuild(root, folder, libtorch) !== "sources" });
  const failure = verifyAddon(folder, libtorch, env);
  if (failure)
    throw new SetupError(
      formatFailure([...rejected, { ...libtorch, reason: `the addon built against it fails: ${failure}` }], []),
    );
  completeBuild(root, folder, libtorch);
  return { libtorch, rejected, addon, actions };
}

/** @param {Libtorch} libtorch */
function describe({ version, source, path, cuda }) {
  return `libtorch ${version} from ${SOURCE_NAMES[source]} (${path})${cuda ? ", with CUDA" : ""}`;
}

const HELP = `Usage: setup.mjs [--libtorch PATH] [--force] [--dry-run] [--only-libtorch] [--json]

Finds libtorch (LIBTORCH, the Python on PATH, .venv, .torch, the system) or installs it, and builds the native addon.

  --libtorch PATH  use the libtorch in this folder (like the variable LIBTORCH)
  --force          rebuild even if nothing changed
  --dry-run        print what would be done
  --only-libtorch  find or install libtorch, but build nothing
  --json           print the result as JSON
An installed package keeps .venv in TEMPER_CACHE/libtorch-VERSION (~/.cache/temper), where npm does not replace it.
Variables: LIBTORCH, TEMPER_TORCH (version to install, without known checksums), TEMPER_CUDA (1 or 0: with or without CUDA), TEMPER_BUILD (folder), TEMPER_PREBUILT (0: always compile)`;

/** @param {string[]} args */
function main(args) {
  const flag = /** @type {const} */ ({ type: "boolean", default: false });
  const { values } = parseArgs({
    args,
    options: {
      libtorch: { type: "string" },
      force: flag,
      "dry-run": flag,
      "only-libtorch": flag,
      json: flag,
      help: flag,
    },
  });
  if (values.help) return console.log(HELP);
  const env = { ...process.env, ...(values.libtorch && { LIBTORCH: values.libtorch }) };
  const log = (/** @type {string} */ line) => console.error(line);
  const dryRun = values["dry-run"];
  const onlyLibtorch = values["only-libtorch"];
  const result = setup({ root: packageRoot, env, log, force: values.force, dryRun, onlyLibtorch });
  const { libtorch, actions } = result;
  if (values.json) return console.log(JSON.stringify(result, null, 2));
  if (dryRun) {
    const first = libtorch ? `use ${describe(libtorch)}` : "install libtorch";
    log(`Would ${first}, and ${actions.includes("build") ? "build the addon" : "build nothing"}.`);
  } else if (!onlyLibtorch) {
    log(`Ready: ${describe(/** @type {Libtorch} */ (libtorch))}`);
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    const isUsageError =
      error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
    if (!(error instanceof SetupError || isUsageError)) throw error;
    console.error(getErrorMessage(error));
    process.exitCode = 2;
  }
}
