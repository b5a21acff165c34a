import { Counter, Gauge, Histogram, Registry } from "prom-client";

/** Seconds, from a short text on a GPU to a large request on a CPU. */
const secondBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const batchBounds = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/** The counters of a model's server, for Prometheus. */
export type InferenceMetrics = ReturnType<typeof createInferenceMetrics>;

export function createInferenceMetrics() {
  const registry = new Registry();
  const registers = [registry];
  const addGauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  addGauge("process_resident_memory_bytes", "Memory of the process.", () => process.memoryUsage.rss());
  addGauge("process_uptime_seconds", "Seconds since the process started.", () => process.uptime());
  return {
    registry,
    requests: new Counter({
      name: "temper_requests_total",
      help: "Requests by route and status.",
      labelNames: ["route", "status"],
      registers,
    }),
    seconds: new Histogram({
      name: "temper_request_seconds",
      help: "Seconds from a request to its response.",
      buckets: secondBounds,
      registers,
    }),
    predictions: new Counter({
      name: "temper_predictions_total",
      help: "Classified texts by predicted label.",
      labelNames: ["label"],
      registers,
    }),
    batches: new Histogram({
      name: "temper_batch_texts",
      help: "Texts, windows or groups that the model read together.",
      buckets: batchBounds,
      registers,
    }),
    waitingPasses: new Gauge({
      name: "temper_queue_passes",
      help: "Model passes that wait or are being computed.",
      registers,
    }),
  };
}
