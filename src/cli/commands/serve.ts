import type { Command } from "@commander-js/extra-typings";
import { serveModel, serveRequestSchema } from "../../serve/serve-model.js";
import { type Io, write } from "../io.js";
import { addOptions, quietOption, runtimeFlags } from "../options.js";
import { createCallbacks } from "../progress.js";
import { waitForSignal } from "../signals.js";

export const note =
  'POST {"texts": ["a text", ["first of a pair", "second"]]} returns {"probabilities": [[…], …]}.\n' +
  "GET returns the model, its labels and its settings.";
export const examples = ["temper serve runs/sst2-standard-seed0", "temper serve runs/sst2-standard-seed0 --port 9000"];

export function define(command: Command, io: Io): void {
  const { shape } = serveRequestSchema;
  const withModel = command.argument("<model>", shape.model.description);
  addOptions(withModel, shape, {
    port: "<number>",
    host: "<address>",
    allowedHosts: "<name>",
    maxTexts: "<count>",
    maxCharacters: "<count>",
    ...runtimeFlags,
  })
    .addOption(quietOption())
    .action(async (model, { quiet, ...request }) => {
      const callbacks = createCallbacks(io, quiet);
      await using served = await serveModel({ model, ...request }, callbacks).finally(callbacks.end);
      await write(io.stdout, `${served.url}\n`);
      callbacks.printLine(`Serving ${model} (${served.labels.join(", ")}). Press Ctrl-C to stop.`);
      await waitForSignal(() =>
        callbacks.printLine("\nStopping after the current requests. Repeat to stop immediately."),
      );
    });
}
