import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** Seconds, from a short text on a GPU to a large request on a CPU. */
const secondBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const batchBounds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/** The counters of a model's server, for Prometheus. */
export class InferenceMetrics {
  readonly #registry = new Registry();
  readonly #registers = [this.#registry];
  readonly #requests = new Counter({
    name: "temper_requests_total",
    help: "Requests by route and status.",
    labelNames: ["route", "status"],
    registers: this.#registers,
  });
  readonly #seconds = new Histogram({
    name: "temper_request_seconds",
    help: "Seconds from a request to its response.",
    buckets: secondBounds,
    registers: this.#registers,
  });
  readonly #predictions = new Counter({
    name: "temper_predictions_total",
    help: "Classified texts by predicted label.",
    labelNames: ["label"],
    registers: this.#registers,
  });
  readonly #batches = new Histogram({
    name: "temper_batch_texts",
    help: "Texts, windows or groups that the model read together.",
    buckets: batchBounds,
    registers: this.#registers,
  });

  #waitingPasses = 0;

  constructor() {
    this.#addGauge("temper_queue_passes", "Model passes that wait or are being computed.", () => this.#waitingPasses);
    this.#addGauge("process_resident_memory_bytes", "Memory of the process.", () => process.memoryUsage.rss());
    this.#addGauge("process_uptime_seconds", "Seconds since the process started.", () => process.uptime());
  }

  #addGauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: this.#registers,
      collect() {
        this.set(read());
      },
    });
  }

  countRequest(route: string, status: number, seconds: number): void {
    this.#requests.inc({ route, status });
    if (route === "/predict") this.#seconds.observe(seconds);
  }

  setWaitingPasses(passes: number): void {
    this.#waitingPasses = passes;
  }

  countBatch(texts: number): void {
    this.#batches.observe(texts);
  }

  countPrediction(label: string): void {
    this.#predictions.inc({ label });
  }

  /** The media type of `format`. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** The metrics in the text format of Prometheus. */
  format(): Promise<string> {
    return this.#registry.metrics();
  }
}
