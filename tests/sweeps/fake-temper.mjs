// Stands for `temper train --resume --out FOLDER` and `temper evaluate`: finishes at once, but for seeds that FAKE tells otherwise.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

if (process.argv[2] === "evaluate") {
  console.log(JSON.stringify({ drop: 0.2, advglue: { accuracy: 0.3, examples: 10 } }));
  process.exit(0);
}
const folder = process.argv[process.argv.indexOf("--out") + 1] ?? "";
const seed = Number(/^seed: (\d+)$/m.exec(readFileSync(join(folder, "config.yaml"), "utf8"))?.[1]);
const { crashOnce, alwaysFail, slow, calls, selection } = JSON.parse(process.env.FAKE ?? "{}");
appendFileSync(
  calls,
  `${JSON.stringify({ seed, gpu: process.env.CUDA_VISIBLE_DEVICES, threads: process.env.OMP_NUM_THREADS })}\n`,
);
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
  for (const name of ["checkpoints", "model"]) mkdirSync(join(folder, name), { recursive: true });
  const report = { split: "test", examples: 100, accuracy: 0.5 + seed / 100, interval: [0, 1], confusion: [] };
  const results = { format: 1, model: "m", task: "t", methods: [], seed, steps: 1, bestStep: 1, trainExamples: 1 };
  writeFileSync(
    join(folder, "results.json"),
    JSON.stringify({
      ...results,
      selection: selection ? { accuracy: 0.5 } : null,
      report: { ...report, metrics: { accuracy: report.accuracy } },
    }),
  );
  process.exit(0);
}
process.on("SIGTERM", () => process.exit(130));
if (slow === seed) setTimeout(finish, 60_000);
else finish();
