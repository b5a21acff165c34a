// Stands for `temper worker`. It finishes requests at once, except for the seeds that FAKE names.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

// Nothing else of the library is imported, because many of these processes are started.
const library = new URL("../../dist/jobs/work-request.js", import.meta.url).href;
/** @type {typeof import("../../src/jobs/work-request.js")} */
const { hashRequest } = await import(library);
if (process.argv[2] !== "worker") throw new Error(`expected the command worker, received ${process.argv[2]}`);
process.on("SIGTERM", () => process.exit(130));
process.on("message", (/** @type {import("../../src/jobs/work-request.js").WorkFiles | "end"} */ files) => {
  if (files === "end") process.exit();
  execute(files);
});

/**
 * A run with 10 steps per epoch at a batch size of 8, with 100 FLOPs per text.
 * @param {import("../../src/settings/config.js").RunConfig} config
 * @returns {import("../../src/actions/train/run-work.js").RunWork}
 */
function countWork({ train: { batchSize, epochs } }) {
  const stepsPerEpoch = 80 / batchSize;
  return {
    examples: { train: 80, validation: 0, test: 10 },
    parameters: 1000,
    diskBytes: 4000,
    stepsPerEpoch,
    steps: stepsPerEpoch * epochs,
    evaluations: 0,
    flops: { step: 100 * batchSize, train: 8000, validation: 0, test: 1000 },
  };
}

/**
 * A step takes 1 s, and 1 s per 100 FLOPs with each method.
 * @param {import("../../src/settings/config.js").RunConfig} config
 * @returns {import("../../src/actions/train/estimate-run.js").RunBenchmark}
 */
function measure({ methods }) {
  const steps = [2, 4].map((batchSize) => ({
    ...{ batchSize, length: 10, flops: 100 * batchSize },
    ...{ seconds: 1 + batchSize * (1 + methods.length), memoryBytes: 5000 + 100 * batchSize },
  }));
  const rates = { passes: 0, validateRate: 0, predictRate: 0 };
  const place = /** @type {const} */ ({ device: "cpu", precision: "fp32", threads: 1 });
  return { ...rates, ...place, parameters: 1000, modelParameters: 1000, steps };
}

/** @param {import("../../src/jobs/work-request.js").WorkFiles} files */
function execute({ requestPath, resultPath }) {
  /** @type {import("../../src/jobs/work-request.js").WorkRequest} */
  const request = JSON.parse(readFileSync(requestPath, "utf8"));
  const { calls, crashOnce, alwaysFail, slow, hasValidation, hangAt } = JSON.parse(process.env.FAKE ?? "{}");
  if (request.kind === "harden") throw new Error("expected a request of a sweep");
  if (request.kind === "count-work" || request.kind === "measure") {
    const [first] = request.kind === "measure" ? [request.config] : request.configs;
    const names = first?.methods.map(({ name }) => name).join("+") || "standard";
    const label = request.kind === "measure" ? `measures ${names}` : `reads ${basename(first?.data ?? "")}`;
    appendFileSync(calls, `${JSON.stringify({ label, pid: process.pid, threads: process.env.OMP_NUM_THREADS })}\n`);
    // The parent process ends a worker that takes too long.
    if (label === hangAt) return void setTimeout(() => undefined, 60_000);
    if (request.kind === "measure") return finish("done", { result: measure(request.config) });
    return finish("done", { result: { works: request.configs.map(countWork), sample: [] } });
  }
  const folder =
    request.kind === "train" ? request.out : request.kind === "analyze" ? (request.runs[0] ?? "") : request.model;
  const seed = Number(/-seed(\d+)-/.exec(basename(folder))?.[1]);
  const { CUDA_VISIBLE_DEVICES: gpu, OMP_NUM_THREADS: threads, TEMPER_SHARED_GPU: shared } = process.env;
  const environment = { gpu, threads, shared, processes: process.env.TEMPER_ATTACK_PROCESSES, pid: process.pid };
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
