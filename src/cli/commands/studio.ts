import type { Command } from "@commander-js/extra-typings";
import { startStudio, studioRequestSchema } from "../../studio/studio.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { createCallbacks } from "../progress.js";
import { waitForSignal } from "../signals.js";

export const note =
  "Opens a page on this host: live runs, comparisons, a playground for attacks, jobs and ratings.\n" +
  "Only people who have the printed address can use it. Jobs continue after the studio stops.";
export const examples = ["temper studio", "temper studio runs/sst2 runs/rte --port 9000"];

export function define(command: Command, io: Io): void {
  const { shape } = studioRequestSchema;
  const withFolders = command.argument("[folders...]", `${shape.folders.description} (default: runs)`);
  addOptions(withFolders, shape, { port: "<number>" }).action(async (folders, request) => {
    const callbacks = createCallbacks(io, false);
    await using studio = await startStudio({ ...(folders.length > 0 && { folders }), ...request }, callbacks);
    await write(io.stdout, `${studio.url}\n`);
    callbacks.printLine("Open this address in a browser. Press Ctrl-C to stop; jobs continue.");
    await waitForSignal(() => undefined);
  });
}
