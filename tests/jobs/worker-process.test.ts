import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type WorkRequest, workRequestSchema } from "../../src/jobs/work-request.js";
import { runWorker, type Work, Worker } from "../../src/jobs/worker-process.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
const log = join(folder, "log.txt");
const worker = new Worker();
afterAll(() => worker.close());

function writeWork(name: string, request: WorkRequest): Work {
  const requestPath = join(folder, `${name}.request.json`);
  writeFileSync(requestPath, JSON.stringify(request));
  return { request, requestPath, resultPath: join(folder, `${name}.result.json`) };
}

async function writeTraining(name: string, seed: number): Promise<Work> {
  const config = { ...(await tinyRun(folder)), seed, device: "cpu", threads: 1 };
  return writeWork(name, workRequestSchema.parse({ kind: "train", config, out: join(folder, name) }));
}

const readModel = (name: string): Buffer => readFileSync(join(folder, name, "model", "model.safetensors"));

it("a worker that has trained another run trains the same model as a new process", async () => {
  for (const [name, seed] of [
    ["first", 0],
    ["second", 1],
  ] as const)
    expect(await worker.execute(await writeTraining(name, seed), log)).toMatchObject({ status: "done" });
  expect(await runWorker(await writeTraining("alone", 1), log)).toMatchObject({ status: "done" });
  expect(readModel("second").equals(readModel("alone"))).toBe(true);
  expect(readModel("second").equals(readModel("first"))).toBe(false);
});

it("a request that fails ends the process, and the next request gets a new one", async () => {
  const missing = writeWork("missing", { kind: "train", config: null, out: join(folder, "missing") });
  expect(await worker.execute(missing, log)).toMatchObject({ status: "failed", error: { isUserError: true } });
  expect(readFileSync(log, "utf8")).toMatch(/^temper: .*missing/m);
  // A result that cannot be written has its reason in the log.
  const work = { ...missing, resultPath: join(folder, "log.txt", "result.json") };
  await expect(worker.execute(work, log)).rejects.toThrow(/result\.json/);
  expect(readFileSync(log, "utf8")).toMatch(/^temper: .*result\.json/m);
});
