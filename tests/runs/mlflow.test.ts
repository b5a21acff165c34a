import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { fineTune } from "../../src/actions/train/train.js";
import type { RunFolder } from "../../src/runs/run-folder.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const folder = temporaryFolder();
afterEach(() => vi.unstubAllEnvs());

interface LoggedMetric {
  readonly key: string;
  readonly value: number;
  readonly step: number;
  readonly timestamp: number;
}

/** A server with the calls of MLflow's REST API that a run uses. It rejects calls out of order. */
async function startFakeMlflow() {
  const state = {
    experiment: "",
    runs: new Map<string, string>(),
    metrics: [] as LoggedMetric[],
    params: new Map<string, string>(),
  };
  let isBroken = false;
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    request.on("end", () => {
      const reply = (status: number, value: object): void => {
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
      };
      const { pathname, searchParams } = new URL(request.url!, "http://mlflow");
      const body = text === "" ? {} : JSON.parse(text);
      const call = pathname.replace("/api/2.0/mlflow/", "");
      if (isBroken) reply(500, { error_code: "INTERNAL_ERROR" });
      else if (call === "experiments/get-by-name") {
        if (searchParams.get("experiment_name") === state.experiment)
          reply(200, { experiment: { experiment_id: "7" } });
        else reply(404, { error_code: "RESOURCE_DOES_NOT_EXIST" });
      } else if (call === "experiments/create") {
        state.experiment = body.name;
        reply(200, { experiment_id: "7" });
      } else if (call === "runs/create" && body.experiment_id === "7") {
        const id = `run${state.runs.size}`;
        state.runs.set(id, "RUNNING");
        reply(200, { run: { info: { run_id: id } } });
      } else if (call === "runs/update" && state.runs.has(body.run_id)) {
        state.runs.set(body.run_id, body.status);
        reply(200, { run_info: {} });
      } else if (call === "runs/log-batch" && state.runs.get(body.run_id) === "RUNNING") {
        state.metrics.push(...(body.metrics ?? []));
        for (const { key, value } of body.params ?? []) state.params.set(key, value);
        reply(200, {});
      } else reply(400, { error_code: "INVALID_PARAMETER_VALUE", message: call });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...{ url, state },
    break: () => {
      isBroken = true;
    },
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}

/** The numbers of a run's events under the names of Hugging Face. */
async function listEvents(run: RunFolder): Promise<[string, number, number][]> {
  return (await run.events()).flatMap(({ step, epoch: _, evaluation, ...rest }) =>
    Object.entries(evaluation ?? rest).flatMap(([key, value]): [string, number, number][] =>
      typeof value === "number" ? [[`${evaluation ? "eval" : "train"}/${key}`, step, value]] : [],
    ),
  );
}

describe("MLflow", () => {
  test("a run logs its settings and every number, and a resumed run continues", async () => {
    const mlflow = await startFakeMlflow();
    vi.stubEnv("MLFLOW_TRACKING_URI", mlflow.url);
    const config = await tinyRun(join(folder, "logged"));
    const out = join(folder, "logged", "run");
    const controller = new AbortController();
    const stopAtStep = { onStep: ({ step }: { step: number }) => void (step === 5 && controller.abort()) };
    const options = { out, reportTo: ["mlflow", "tensorboard"] as const };
    await expect(fineTune(config, { ...options, signal: controller.signal, callbacks: stopAtStep })).rejects.toThrow();
    expect([...mlflow.state.runs]).toEqual([["run0", "KILLED"]]);
    const run = await fineTune(config, { ...options, resume: true });
    expect([...mlflow.state.runs]).toEqual([["run0", "FINISHED"]]);
    const logged = new Set(mlflow.state.metrics.map(({ key, step, value }) => `${key} ${step} ${value}`));
    const expected = await listEvents(run);
    expect(expected.map(([key]) => key)).toEqual(expect.arrayContaining(["train/loss", "eval/accuracy"]));
    for (const [key, step, value] of expected) expect(logged).toContain(`${key} ${step} ${value}`);
    expect(mlflow.state.params.get("train.learningRate")).toBe("0.01");
    expect(mlflow.state.experiment).toBe("temper");
    await mlflow.close();
  });

  test("a server that fails while a run trains causes one warning", async () => {
    const mlflow = await startFakeMlflow();
    vi.stubEnv("MLFLOW_TRACKING_URI", mlflow.url);
    const warnings: string[] = [];
    const config = await tinyRun(join(folder, "broken"));
    const callbacks = { onStart: () => mlflow.break() };
    const onWarning = (message: string): void => void warnings.push(message);
    await fineTune(config, { out: join(folder, "broken", "run"), reportTo: ["mlflow"], callbacks, onWarning });
    expect(warnings.filter((warning) => warning.includes("MLflow failed"))).toHaveLength(1);
    await mlflow.close();
  });

  test.each([
    ["", "MLFLOW_TRACKING_URI"],
    ["http://127.0.0.1:9", "does not answer"],
  ])("a run without a server is rejected before it starts (%s)", async (uri, message) => {
    vi.stubEnv("MLFLOW_TRACKING_URI", uri);
    const config = await tinyRun(join(folder, "rejected"));
    const started = fineTune(config, { out: join(folder, "rejected", "run"), reportTo: ["mlflow"] });
    await expect(started).rejects.toThrow(message);
  });
});

/** The answers of runs/get and metrics/get-history. */
interface StoredRun {
  readonly run: { readonly info: { readonly status: string }; readonly data: { readonly params: readonly object[] } };
  readonly metrics: readonly LoggedMetric[];
}

const python = process.env.TEMPER_CHECK_MLFLOW;

async function findFreePort(): Promise<number> {
  const server = createTcpServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

describe.runIf(python)("a real MLflow server", () => {
  test("has the settings and every number of a run", async () => {
    const port = await findFreePort();
    const store = `sqlite:///${join(folder, "mlflow.db")}`;
    const argv = [
      "server",
      "--host",
      "127.0.0.1",
      "--port",
      String(port),
      "--backend-store-uri",
      store,
      "--workers",
      "1",
    ];
    const server: ChildProcess = spawn(join(dirname(python!), "mlflow"), argv, { stdio: "ignore", detached: true });
    try {
      const url = `http://127.0.0.1:${port}`;
      const isReady = async () => (await fetch(`${url}/health`).catch(() => null))?.ok === true;
      for (let i = 0; i < 300 && !(await isReady()); i++) await sleep(500);
      vi.stubEnv("MLFLOW_TRACKING_URI", url);
      const config = await tinyRun(join(folder, "real"));
      const run = await fineTune(config, { out: join(folder, "real", "run"), reportTo: ["mlflow"] });
      const { runId } = JSON.parse(readFileSync(run.path("mlflow"), "utf8")) as { runId: string };
      const get = async (path: string): Promise<StoredRun> =>
        (await fetch(`${url}/api/2.0/mlflow/${path}`)).json() as never;
      const { run: stored } = await get(`runs/get?run_id=${runId}`);
      expect(stored.info.status).toBe("FINISHED");
      expect(stored.data.params).toContainEqual({ key: "train.learningRate", value: "0.01" });
      for (const key of ["train/loss", "eval/accuracy"]) {
        const { metrics } = await get(`metrics/get-history?run_id=${runId}&metric_key=${encodeURIComponent(key)}`);
        const expected = (await listEvents(run)).filter(([name]) => name === key);
        expect(metrics.map(({ step, value }: LoggedMetric) => [key, step, value])).toEqual(expected);
      }
    } finally {
      process.kill(-server.pid!, "SIGTERM");
    }
  });
});
