// Stands for `temper worker`. It finishes requests at once, except for the seeds that FAKE names.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

// Nothing else of the library is imported, because many of these processes are started.
const library = new URL("../../dist/jobs/hash-request.js", import.meta.url).href;
/** @type {typeof import("../../src/jobs/hash-request.js")} */
const { hashRequest } = await import(library);
if (process.argv[2] !== "worker") throw new Error(`expected the command worker, received ${process.argv[2]}`);
process.on("SIGTERM", () => process.exit(130));
process.on("message", execute);

/** @param {import("../../src/jobs/work-request.js").WorkFiles} files */
function execute({ requestPath, resultPath }) {
  /** @type {import("../../src/jobs/work-request.js").WorkRequest} */
  const request = JSON.parse(readFileSync(requestPath, "utf8"));
  const { calls, crashOnce, alwaysFail, slow, hasValidation } = JSON.parse(process.env.FAKE ?? "{}");
  if (request.kind === "estimate" || request.kind === "harden") throw new Error("expected a request of a sweep");
  const folder =
    request.kind === "train" ? request.out : request.kind === "analyze" ? (request.runs[0] ?? "") : request.model;
  const seed = Number(/-seed(\d+)-/.exec(basename(folder))?.[1]);
  const { CUDA_VISIBLE_DEVICES: gpu, OMP_NUM_THREADS: threads, TEMPER_SHARED_GPU: shared } = process.env;
  const environment = { gpu, threads, shared, pid: process.pid };
  console.error(`executes ${request.kind}`);
  appendFileSync(calls, `${JSON.stringify({ kind: request.kind, seed, ...environment })}\n`);

  /** @param {"done" | "failed"} status @param {object} [more] */
  function finish(status, more = {}) {
    writeFileSync(resultPath, JSON.stringify({ format: 1, hash: hashRequest(request), status, ...more }));
    if (status === "done") process.send?.("done");
    else process.exit(1);
  }

  function train() {
    for (const name of ["checkpoints", "model"]) mkdirSync(join(folder, name), { recursive: true });
    const accuracy = 0.5 + seed / 100;
    const results = {
      ...{ format: 3, model: "m", task: "t", methods: [], seed, steps: 1, bestStep: 1, trainExamples: 1 },
      validation: hasValidation ? { accuracy: 0.5 } : null,
      test: {
        ...{ task: "t", split: "test", examples: 100, accuracy, interval: { low: 0, high: 1 }, metrics: { accuracy } },
        ...{ confusionMatrix: [], labels: [], outcomes: { examples: "", correct: "" } },
      },
    };
    writeFileSync(join(folder, "results.json"), JSON.stringify(results));
    finish("done");
  }

  if (request.kind !== "train") return finish("done");
  if (alwaysFail === seed)
    return finish("failed", { error: { message: "The disk is full. Free some space.", isUserError: true } });
  if (crashOnce === seed) {
    try {
      writeFileSync(join(folder, "crashed"), "", { flag: "wx" });
      process.kill(process.pid, "SIGKILL");
    } catch {
      // It has crashed before.
    }
  }
  if (slow === seed) setTimeout(train, 60_000);
  else train();
}
