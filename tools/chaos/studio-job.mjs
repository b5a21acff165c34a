// node studio-job.mjs INPUTS OUT PROGRAM…: opens a studio with PROGRAM (temper), and trains as one of its
// jobs. If OUT has a job, waits for it, or resumes it if it was stopped. Exits with 0 if it is finished.
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { JobStore } from "../../dist/studio/jobs.js";

const [inputs = "", out = "", program = "", ...words] = process.argv.slice(2);
// A studio shows folders that exist.
mkdirSync(out, { recursive: true });
const studio = spawn(program, [...words, "studio", out], { stdio: ["ignore", "pipe", "inherit"] });
/** @type {Promise<never>} */
const ended = new Promise((_, reject) =>
  studio.once("close", (code, signal) => reject(new Error(`The studio ended with ${signal ?? code}.`))),
);
/** @type {Promise<string>} */
const printed = new Promise((resolve) => {
  let output = "";
  studio.stdout.on("data", (chunk) => {
    output += chunk;
    if (output.includes("\n")) resolve(output.trim());
  });
});

/** @param {string} path @param {object} body */
async function post(path, body) {
  const url = new URL(await Promise.race([printed, ended]));
  const response = await fetch(`${url.origin}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${url.searchParams.get("token")}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${answer}`);
  return /** @type {{ id?: string | null, problems?: object }} */ (JSON.parse(answer));
}

async function runJob() {
  const store = new JobStore(join(out, ".studio", "jobs"), [out]);
  const findJob = async () => (await store.list(async () => null))[0];
  const job = await findJob();
  if (!job) {
    const data = { data: join(inputs, "reviews.tsv"), textColumn: "text", labelColumn: "label" };
    const train = { "train.epochs": 6, "train.batchSize": 8, "train.learningRate": 0.01, "train.saveSteps": 5 };
    const values = {
      model: join(inputs, "model"),
      ...data,
      ...train,
      device: "cpu",
      threads: 1,
      out: join(out, "one"),
    };
    const { id, problems } = await post("/api/jobs", { kind: "train", values });
    if (!id) throw new Error(`The form was rejected: ${JSON.stringify(problems)}`);
  } else if (job.state === "stopped" || job.state === "failed")
    await post("/api/jobs/change", { id: job.id, action: "resume" });
  else await printed;
  for (;;) {
    const present = await findJob();
    if (present?.state === "finished") return;
    if (present && present.state !== "running") throw new Error(`The job ${present.state}: ${present.error}`);
    await delay(20);
  }
}

await Promise.race([runJob(), ended])
  .catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  })
  .finally(() => studio.kill("SIGTERM"));
