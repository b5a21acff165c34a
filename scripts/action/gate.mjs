// Runs the gate of the GitHub Action and publishes its verdict. The results are outside of the workspace, so those of the
// checkout are never taken for new ones.
import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The verdicts, with the exit codes of temper gate. Nothing else is published. */
const exitCodes = /** @type {Readonly<Record<string, number>>} */ ({ passed: 0, regressed: 1, unresolved: 2 });

/**
 * The verdict in the folder of a gate; null if there is none, or if the gate ended with another exit code.
 * @param {string} folder
 * @param {number} code
 * @returns {string | null}
 */
export function readVerdict(folder, code) {
  try {
    const { verdict } = JSON.parse(readFileSync(join(folder, "gate.json"), "utf8"));
    return typeof verdict === "string" && Object.hasOwn(exitCodes, verdict) && exitCodes[verdict] === code
      ? verdict
      : null;
  } catch {
    return null;
  }
}

/**
 * @param {Readonly<Record<string, string | undefined>>} env
 * @param {readonly string[]} [program] temper
 * @returns {number} the exit code
 */
export function runGate(env, program) {
  const { RUNNER_TEMP = "", MODEL = "", BASELINE = "", MAX_DROP = "", MIN_ROBUST = "", ARGUMENTS = "" } = env;
  const out = join(RUNNER_TEMP, "temper-gate-results");
  rmSync(out, { recursive: true, force: true });
  const temper = program ?? [
    process.execPath,
    join(RUNNER_TEMP, "temper-gate/node_modules/temper-nlp/dist/cli/main.js"),
  ];
  const words = [
    ...["gate", MODEL, "--baseline", BASELINE, "--max-drop", MAX_DROP],
    ...(MIN_ROBUST === "" ? [] : ["--min-robust", MIN_ROBUST]),
    ...ARGUMENTS.split(/\s+/).filter((word) => word !== ""),
    ...["--out", out],
  ];
  const { status } = spawnSync(/** @type {string} */ (temper[0]), [...temper.slice(1), ...words], { stdio: "inherit" });
  const code = status ?? 3;
  const verdict = readVerdict(out, code);
  const summary = join(out, "summary.md");
  if (verdict !== null && env.GITHUB_OUTPUT) appendFileSync(env.GITHUB_OUTPUT, `verdict=${verdict}\n`);
  if (verdict !== null && env.GITHUB_STEP_SUMMARY && existsSync(summary))
    appendFileSync(env.GITHUB_STEP_SUMMARY, readFileSync(summary));
  return code;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(runGate(process.env));
