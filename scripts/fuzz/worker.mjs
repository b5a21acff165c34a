// node worker.mjs TARGET FIRST SECONDS ROOT WORK: runs cases until the time is over. Tells its parent
// each case before it starts, and each failure.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFiles, runCase } from "./run-case.mjs";
import { targets } from "./targets.mjs";

const [name, first, seconds, root, work] = process.argv.slice(2);
const load = (path) => import(`${root}/dist/${path}.js`);
let number = Number(first);
const counts = { ok: 0, refused: 0, failed: 0 };
process.on("unhandledRejection", (error) => {
  process.send({ failure: { number, problem: `unhandled rejection: ${error?.stack ?? error}` } });
  counts.failed++;
});
mkdirSync(join(work, name), { recursive: true });
const target = await targets[name]({ seeds: join(work, "seeds"), work: join(work, name), load });
const end = performance.now() + 1000 * Number(seconds);
for (; performance.now() < end; number++) {
  const files = makeFiles(target, name, number);
  writeFileSync(join(work, `${name}.current`), String(number));
  const started = performance.now();
  const result = await runCase(target, files);
  const time = performance.now() - started;
  if (typeof result === "string" && time < 10_000) counts[result]++;
  else {
    counts.failed++;
    process.send({ failure: { number, problem: time < 10_000 ? String(result?.stack ?? result) : "slow" } });
  }
}
process.send({ counts, next: number });
process.disconnect();
process.exit(0);
