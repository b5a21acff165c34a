import type { Command } from "@commander-js/extra-typings";
import type { LoggedRequest } from "../../serve/serve-model.js";
import { serve, serveRequestSchema } from "../../serve/serve-model.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption } from "../options.js";
import { createCallbacks } from "../progress.js";
import { waitForSignal } from "../signals.js";

export const note =
  'POST /predict {"texts": ["a text", ["first of a pair", "second"]]} returns labels and probabilities. ' +
  "GET / describes the model, /openapi.json the routes. /health and /metrics (Prometheus) are for operators.";
export const examples = [
  "temper serve runs/sst2-standard-seed0",
  "temper serve runs/sst2-standard-seed0 --port 9000",
  "temper serve runs/spam-standard-seed0 --windows 32 --positive-label spam",
];

export function define(command: Command, io: Io): void {
  const { shape } = serveRequestSchema;
  const withModel = command.argument("<model>", shape.model.description);
  addOptions(withModel, shape, ["model"])
    .option("--log-requests", "print one JSON line per request to standard error")
    .addOption(quietOption())
    .action(async (model, { quiet, logRequests, ...request }) => {
      const callbacks = createCallbacks(io, quiet);
      const onRequest = logRequests
        ? (line: LoggedRequest): void => void io.stderr.write(`${JSON.stringify(line)}\n`)
        : undefined;
      await using served = await serve({ model, ...request }, { ...callbacks, onRequest }).finally(callbacks.end);
      await write(io.stdout, `${served.url}\n`);
      callbacks.printLine(`Serving ${model} (${served.labels.join(", ")}). Press Ctrl-C to stop.`);
      await waitForSignal(() =>
        callbacks.printLine("\nStopping after the current requests. Repeat to stop immediately."),
      );
    });
}
