import { spawn } from "node:child_process";
import type { Command } from "@commander-js/extra-typings";
import { studio, studioRequestSchema } from "../../studio/studio.js";
import { type Io, write } from "../io.js";
import { addOptions } from "../options.js";
import { createCallbacks } from "../progress.js";
import { waitForSignal } from "../signals.js";

export const note =
  "Opens a page on this host: live runs, comparisons, a playground for attacks, jobs and ratings. " +
  "Only people who have the printed address can use it. Jobs continue after the studio stops.";
export const examples = ["temper studio --open", "temper studio runs/sst2 runs/rte --port 9000"];

export function define(command: Command, io: Io): void {
  const { shape } = studioRequestSchema;
  const withFolders = command.argument("[folders...]", `${shape.folders.description} (default: runs)`);
  const withOptions = addOptions(withFolders, shape, ["folders"]);
  withOptions.option("--open", "open the page in the browser of this desktop").action(async (folders, given) => {
    const { open, ...request } = given;
    const callbacks = createCallbacks(io, false);
    await using opened = await studio({ ...(folders.length > 0 && { folders }), ...request }, callbacks);
    await write(io.stdout, `${opened.url}\n`);
    if (open) openBrowser(opened.url, () => callbacks.printLine("No browser could be started."));
    callbacks.printLine(`${open ? "" : "Open this address in a browser. "}Press Ctrl-C to stop; jobs continue.`);
    await waitForSignal(() => undefined);
  });
}

function openBrowser(url: string, onFailure: () => void): void {
  const programs: Partial<Record<NodeJS.Platform, [string, ...string[]]>> = {
    darwin: ["open"],
    win32: ["cmd", "/c", "start", ""],
  };
  const [program, ...words] = programs[process.platform] ?? ["xdg-open"];
  const child = spawn(program, [...words, url], { detached: true, stdio: "ignore" });
  child.once("error", onFailure);
  child.once("exit", (code) => code !== 0 && onFailure());
  child.unref();
}
