// node worker.mjs TARGET FIRST CASES SECONDS ROOT WORK: runs cases until their number or the time is
// reached. WORK/current has the number of the case and the counts before it. Failures go to the parent.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFiles, runCase } from "./run-case.mjs";
import { targets } from "./targets.mjs";

const [name, first, cases, seconds, root, work] = process.argv.slice(2);
const load = (path) => import(`${root}/dist/${path}.js`);
let number = Number(first);
const counts = { ok: 0, refused: 0, failed: 0 };
process.on("unhandledRejection", (error) => {
  process.send({ failure: { number, problem: `unhandled rejection: ${error?.stack ?? error}` } });
  counts.failed++;
});
mkdirSync(join(work, name), { recursive: true });
const target = await targets[name]({ seeds: join(work, "..", "seeds"), work: join(work, name), load });
const start = performance.now();
for (; number < Number(first) + Number(cases) && performance.now() - start < 1000 * Number(seconds); number++) {
  const files = makeFiles(target, name, number);
  writeFileSync(join(work, "current"), JSON.stringify({ number, counts }));
  // Time of the processor: a busy host is no mistake of a case.
  const before = process.cpuUsage();
  const result = await runCase(target, files);
  const { user, system } = process.cpuUsage(before);
  const isSlow = user + system > 10e6;
  if (typeof result === "string" && !isSlow) counts[result]++;
  else {
    counts.failed++;
    process.send({ failure: { number, problem: isSlow ? "slow" : String(result?.stack ?? result) } });
  }
}
process.send({ counts, next: number });
process.disconnect();
process.exit(0);
