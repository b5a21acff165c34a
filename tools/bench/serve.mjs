// Measures a server under load on loopback: dynamic batching and one request at a time.
// Usage: node tools/bench/serve.mjs [RUN] [--clients 200] [--seconds 30]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: "string", default: "200" },
    seconds: { type: "string", default: "30" },
  },
});
const model = positionals[0] ?? "runs/demo/standard";
const [clients, seconds] = [Number(values.clients), Number(values.seconds)];
const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const words = "free offer meeting tomorrow the report money click here project list please see attached win".split(" ");
const createText = (i) =>
  Array.from({ length: 8 + (i % 17) }, (_, k) => words[(i * 7 + k * k) % words.length]).join(" ");

async function start(maxBatchTexts) {
  const flags = ["--port", "0", "--quiet", "--max-batch-texts", String(maxBatchTexts)];
  const child = spawn(process.execPath, [main, "serve", model, ...flags], { stdio: ["ignore", "pipe", "inherit"] });
  const [chunk] = await once(child.stdout, "data");
  return { url: chunk.toString().trim(), child };
}

function send(agent, url, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(`${url}predict`, { method: "POST", agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject).end(body);
  });
}

const readMemory = async (url) =>
  Number(/^process_resident_memory_bytes (\d+)/m.exec(await (await fetch(`${url}metrics`)).text())[1]) / 1e6;

async function measure(name, maxBatchTexts) {
  const { url, child } = await start(maxBatchTexts);
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const latencies = [];
  let errors = 0;
  let count = 0;
  const warmUp = performance.now() + 3000;
  const end = warmUp + seconds * 1000;
  const run = async () => {
    while (performance.now() < end) {
      const started = performance.now();
      const status = await send(agent, url, JSON.stringify({ texts: [createText(count++)] })).catch(() => 0);
      if (status !== 200) errors++;
      else if (started > warmUp) latencies.push(performance.now() - started);
    }
  };
  const clientsDone = Promise.all(Array.from({ length: clients }, run));
  const memory = [];
  for (const at of [0.2, 0.6, 1]) {
    await new Promise((resolve) =>
      setTimeout(resolve, Math.max(0, warmUp + at * seconds * 1000 - performance.now() - 200)),
    );
    memory.push(await readMemory(url));
  }
  await clientsDone;
  agent.destroy();
  child.kill("SIGTERM");
  await once(child, "exit");
  latencies.sort((a, b) => a - b);
  const at = (q) => latencies[Math.min(latencies.length - 1, Math.floor(q * latencies.length))]?.toFixed(0);
  console.log(
    `${name}: ${(latencies.length / seconds).toFixed(0)} texts/s, latency p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ` +
      `${errors} errors, memory ${memory.map((value) => value.toFixed(0)).join(" → ")} MB`,
  );
  return { errors, memory };
}

console.log(`${model}: ${clients} clients with one text per request for ${seconds} s`);
const results = [await measure("dynamic batching", 4096), await measure("one at a time", 1)];
const isFlat = ({ memory: [first, , last] }) => last < 1.1 * first + 50;
process.exitCode = results.every((result) => result.errors === 0 && isFlat(result)) ? 0 : 1;
