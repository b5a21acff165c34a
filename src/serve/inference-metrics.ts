import { Counter, formatMetrics, Gauge, Histogram } from "./metrics.js";

/** Seconds, from a short text on a GPU to a large request on a CPU. */
const secondBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const batchBounds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/** What a server of a model counts. */
export class InferenceMetrics {
  readonly #requests = new Counter("temper_requests_total", "Requests by route and status.");
  readonly #seconds = new Histogram("temper_request_seconds", "Seconds from a request to its response.", secondBounds);
  readonly #predictions = new Counter("temper_predictions_total", "Classified texts by predicted label.");
  readonly #batches = new Histogram("temper_batch_texts", "Texts that were classified together.", batchBounds);
  readonly #gauges: readonly Gauge[];

  constructor(readQueue: () => number) {
    this.#gauges = [
      new Gauge("temper_queue_texts", "Texts that wait or are being classified.", readQueue),
      new Gauge("process_resident_memory_bytes", "Memory of the process.", () => process.memoryUsage.rss()),
      new Gauge("process_uptime_seconds", "Seconds since the process started.", () => process.uptime()),
    ];
  }

  countRequest(route: string, status: number, seconds: number): void {
    this.#requests.add({ route, status: String(status) });
    if (route === "/predict") this.#seconds.observe(seconds);
  }

  countBatch(texts: number): void {
    this.#batches.observe(texts);
  }

  countPrediction(label: string): void {
    this.#predictions.add({ label });
  }

  format(): string {
    return formatMetrics([this.#requests, this.#seconds, this.#predictions, this.#batches, ...this.#gauges]);
  }
}
