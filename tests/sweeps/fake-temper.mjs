// Stands for `temper train --resume --out FOLDER`: finishes at once, but for seeds that FAKE tells otherwise.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.argv[process.argv.indexOf("--out") + 1] ?? "";
const seed = Number(/^seed: (\d+)$/m.exec(readFileSync(join(folder, "config.yaml"), "utf8"))?.[1]);
const { crashOnce, alwaysFail, slow, calls } = JSON.parse(process.env.FAKE ?? "{}");
appendFileSync(calls, `${JSON.stringify({ seed, gpu: process.env.CUDA_VISIBLE_DEVICES, threads: process.env.OMP_NUM_THREADS })}\n`);
if (alwaysFail === seed) {
  console.error("temper: cannot write there: the disk is full; free some space and try again");
  process.exit(2);
}
const mark = join(folder, "crashed");
mkdirSync(folder, { recursive: true });
if (crashOnce === seed) {
  try {
    writeFileSync(mark, "", { flag: "wx" });
    process.kill(process.pid, "SIGKILL");
  } catch {
    // It has crashed before.
  }
}
function finish() {
  const report = { split: "dev", examples: 100, accuracy: 0.5 + seed / 100, interval: [0, 1], confusion: [] };
  const results = { format: 1, model: "m", task: "t", method: [], seed, steps: 1, chosenStep: 1, trainExamples: 1, selection: null };
  writeFileSync(
    join(folder, "results.json"),
    JSON.stringify({ ...results, report: { ...report, metrics: { accuracy: report.accuracy } } }),
  );
  process.exit(0);
}
process.on("SIGTERM", () => process.exit(130));
if (slow === seed) setTimeout(finish, 60_000);
else finish();
