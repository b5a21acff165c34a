import { z } from "zod";
import { getErrorMessage, UserError } from "../../errors.js";
import { listScalars, type Tracker } from "./tracker.js";

/** Where runs are recorded: the settings of MLflow's own clients, from environment variables. */
interface MlflowSettings {
  readonly url: string;
  readonly experiment: string;
  readonly headers: Readonly<Record<string, string>>;
}

const requestTimeout = 20_000;
/** Limits of one log-batch request. */
const maxMetrics = 1000;
const maxParams = 100;
const maxParamLength = 500;

function readSettings(): MlflowSettings {
  const { MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, MLFLOW_TRACKING_TOKEN } = process.env;
  const { MLFLOW_TRACKING_USERNAME: user, MLFLOW_TRACKING_PASSWORD: password } = process.env;
  if (!MLFLOW_TRACKING_URI || !/^https?:\/\//.test(MLFLOW_TRACKING_URI))
    throw new UserError(
      "--report-to mlflow: expected the address of a server in MLFLOW_TRACKING_URI, such as http://127.0.0.1:5000, " +
        `received ${MLFLOW_TRACKING_URI ? JSON.stringify(MLFLOW_TRACKING_URI) : "nothing"}. ` +
        "Start one with: mlflow server",
    );
  const authorization = MLFLOW_TRACKING_TOKEN
    ? `Bearer ${MLFLOW_TRACKING_TOKEN}`
    : user
      ? `Basic ${Buffer.from(`${user}:${password ?? ""}`).toString("base64")}`
      : null;
  return {
    url: MLFLOW_TRACKING_URI.replace(/\/+$/, ""),
    experiment: MLFLOW_EXPERIMENT_NAME || "temper",
    headers: authorization === null ? {} : { authorization },
  };
}

class MlflowError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

async function callMlflow(
  settings: MlflowSettings,
  method: "GET" | "POST",
  path: string,
  body: object,
): Promise<unknown> {
  const isGet = method === "GET";
  const query = isGet ? `?${new URLSearchParams(body as Record<string, string>)}` : "";
  const response = await fetch(`${settings.url}/api/2.0/mlflow/${path}${query}`, {
    method,
    headers: { "content-type": "application/json", ...settings.headers },
    ...(!isGet && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(requestTimeout),
  });
  const text = await response.text();
  if (!response.ok) throw new MlflowError(response.status, `${path}: status ${response.status}: ${text.slice(0, 300)}`);
  return JSON.parse(text);
}

const experimentSchema = z.object({ experiment: z.object({ experiment_id: z.string() }) });
const createdSchema = z.object({ experiment_id: z.string() });
const runSchema = z.object({ run: z.object({ info: z.object({ run_id: z.string() }) }) });

async function findExperiment(settings: MlflowSettings): Promise<string> {
  try {
    const found = await callMlflow(settings, "GET", "experiments/get-by-name", {
      experiment_name: settings.experiment,
    });
    return experimentSchema.parse(found).experiment.experiment_id;
  } catch (error) {
    if (!(error instanceof MlflowError) || error.status !== 404) throw error;
    const created = await callMlflow(settings, "POST", "experiments/create", { name: settings.experiment });
    return createdSchema.parse(created).experiment_id;
  }
}

export interface MlflowRun {
  /** The name of the run. */
  readonly name: string;
  /** The settings of the run, flat. */
  readonly params: Readonly<Record<string, unknown>>;
  /** The ID of a run to continue; null for a new one. */
  readonly runId: string | null;
  readonly onWarning: (message: string) => void;
}

const statuses = { finished: "FINISHED", failed: "FAILED", stopped: "KILLED" } as const;

/**
 * Records a run on an MLflow server through its REST API. Events are sent in the background. If the
 * server fails while a run trains, there is one warning, and the training goes on.
 */
export class MlflowTracker implements Tracker {
  #queue: { key: string; value: number; timestamp: number; step: number }[] = [];
  #sending: Promise<void> = Promise.resolve();
  #hasFailed = false;

  private constructor(
    readonly settings: MlflowSettings,
    readonly runId: string,
    readonly onWarning: (message: string) => void,
  ) {}

  /** Creates a run, or continues one. Throws if the server cannot be used. */
  static async start({ name, params, runId, onWarning }: MlflowRun): Promise<MlflowTracker> {
    const settings = readSettings();
    try {
      if (runId !== null) {
        await callMlflow(settings, "POST", "runs/update", { run_id: runId, status: "RUNNING" });
        return new MlflowTracker(settings, runId, onWarning);
      }
      const request = { experiment_id: await findExperiment(settings), run_name: name, start_time: Date.now() };
      const created = runSchema.parse(await callMlflow(settings, "POST", "runs/create", request)).run.info.run_id;
      const all = Object.entries(params).map(([key, value]) => ({
        key,
        value: (typeof value === "string" ? value : JSON.stringify(value)).slice(0, maxParamLength),
      }));
      for (let i = 0; i < all.length; i += maxParams)
        await callMlflow(settings, "POST", "runs/log-batch", { run_id: created, params: all.slice(i, i + maxParams) });
      return new MlflowTracker(settings, created, onWarning);
    } catch (error) {
      throw new UserError(
        `--report-to mlflow: ${settings.url} does not answer as expected: ${describe(error)}. ` +
          "Check MLFLOW_TRACKING_URI, or leave mlflow out.",
        { cause: error },
      );
    }
  }

  writeEvent(event: Readonly<Record<string, unknown>>): void {
    const { step, values } = listScalars(event);
    const timestamp = Date.now();
    // The server stores numbers, and NaN is not JSON.
    for (const [key, value] of values) if (Number.isFinite(value)) this.#queue.push({ key, value, timestamp, step });
    this.#sending = this.#sending.then(() => this.#send());
  }

  async #send(): Promise<void> {
    while (this.#queue.length > 0 && !this.#hasFailed) {
      const metrics = this.#queue.splice(0, maxMetrics);
      await this.#try(() => callMlflow(this.settings, "POST", "runs/log-batch", { run_id: this.runId, metrics }));
    }
  }

  async #try(call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (!this.#hasFailed)
        this.onWarning(`MLflow failed: ${describe(error)}. The training goes on, and nothing more is sent.`);
      this.#hasFailed = true;
    }
  }

  async close(status: "finished" | "failed" | "stopped"): Promise<void> {
    await this.#sending;
    await this.#send();
    if (this.#hasFailed) return;
    const update = { run_id: this.runId, status: statuses[status], end_time: Date.now() };
    await this.#try(() => callMlflow(this.settings, "POST", "runs/update", update));
  }
}

function describe(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : "";
  return `${getErrorMessage(error)}${cause}`;
}
