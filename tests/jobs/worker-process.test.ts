import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { hashRequest, type WorkRequest, workRequestSchema } from "../../src/jobs/work-request.js";
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

/** A worker that writes its result, then does what `rest` says. */
function writeProgram(name: string, work: Work, rest: string): string[] {
  const path = join(folder, `${name}.mjs`);
  const result = { format: 1, hash: hashRequest(work.request), status: "done" };
  const write = `writeFileSync(${JSON.stringify(work.resultPath)}, ${JSON.stringify(JSON.stringify(result))})`;
  writeFileSync(path, `import { writeFileSync } from "node:fs";\nconst write = () => ${write};\n${rest}`);
  return [process.execPath, path];
}

it("a worker that is stuck after its result is killed, and its result counts", async () => {
  const work = await writeTraining("stuck", 1);
  const program = writeProgram(
    "stuck",
    work,
    `process.on("SIGTERM", () => undefined); process.on("message", () => { write(); for (;;); });`,
  );
  expect(await runWorker(work, log, { program, patienceMilliseconds: 50 })).toMatchObject({ status: "done" });
});

it("a worker ends by itself, not by a signal", async () => {
  const work = await writeTraining("gentle", 1);
  const ended = join(folder, "ended.txt");
  const program = writeProgram(
    "gentle",
    work,
    `process.on("message", (message) => {
      if (message === "end") { writeFileSync(${JSON.stringify(ended)}, "by itself"); process.exit(); }
      write();
      process.send("done");
    });`,
  );
  expect(await runWorker(work, log, { program })).toMatchObject({ status: "done" });
  expect(existsSync(ended)).toBe(true);
});
