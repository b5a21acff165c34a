import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Command, Option } from "@commander-js/extra-typings";
import { UserError } from "../../errors.js";
import { getErrorCode } from "../../files.js";
import { defaultServerLimits } from "../../runs/endpoint.js";
import { serveModel } from "../../runs/inference-server.js";
import { free } from "../../tensor/index.js";
import { type Io, write } from "../io.js";
import { type ClassifierOptions, loadClassifier } from "../load-classifier.js";
import {
  createIntegerParser,
  deviceOption,
  formatHelpExamples,
  precisionOption,
  quietOption,
  threadsOption,
} from "../options.js";
import { onStopSignals } from "../signals.js";

interface ServeCommandOptions extends ClassifierOptions {
  port: number;
  host: string;
  maxTexts: number;
}

export function define(command: Command, io: Io): void {
  command
    .argument("<model>", "a run folder, its model/, npm:PACKAGE or a hub name")
    .addOption(
      new Option("--port <number>", "0 takes a free one").argParser(createIntegerParser(0, 65_535)).default(8080),
    )
    .option("--host <address>", "where to listen; everything but loopback lets others in", "127.0.0.1")
    .addOption(
      new Option("--max-texts <count>", "texts a request")
        .argParser(createIntegerParser(1))
        .default(defaultServerLimits.maxTexts),
    )
    .addOption(deviceOption())
    .addOption(precisionOption())
    .addOption(threadsOption())
    .addOption(quietOption())
    .addHelpText(
      "after",
      `\nPOST {"texts": ["a text", ["a pair's first", "and second"]]} gives {"probabilities": [[…], …]}; GET says which model it is.\n${formatHelpExamples(
        "temper serve runs/sst2-standard-seed0",
        "temper serve runs/sst2-standard-seed0 --port 9000",
      )}`,
    )
    .action((model, options) => serve(io, model, options));
}

async function serve(io: Io, reference: string, options: ServeCommandOptions): Promise<void> {
  const { model, machine } = await loadClassifier(io, reference, options);
  const { server, classifier } = serveModel(model, machine, { ...defaultServerLimits, maxTexts: options.maxTexts });
  try {
    const url = await listen(server, options);
    await write(io.stdout, `${url}\n`);
    if (!isLoopback(options.host) && !options.quiet)
      io.stderr.write(`note: ${options.host} is no loopback address: whoever reaches this machine can use the model\n`);
    if (!options.quiet) io.stderr.write(`serving ${reference} (${model.labels.join(", ")}); Ctrl-C stops it\n`);
    await waitForStop(server, io, options);
  } finally {
    classifier.close();
    free(model.weights);
  }
}

async function listen(server: Server, { host, port }: ServeCommandOptions): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  }).catch((error: unknown) => {
    const reasons: Record<string, string> = {
      EADDRINUSE: "another program listens there; choose another --port, or 0 for a free one",
      EACCES: "not permitted; choose a --port above 1023",
      EADDRNOTAVAIL: "this machine has no such address; choose another --host",
      ENOTFOUND: "there is no such host; choose another --host",
    };
    throw new UserError(`cannot listen on ${host}:${port}: ${reasons[getErrorCode(error) ?? ""] ?? String(error)}`, {
      cause: error,
    });
  });
  const { address, family, port: chosen } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${chosen}/`;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}

/** The first signal lets requests that are under way finish; the second ends the process at once. */
function waitForStop(server: Server, io: Io, { quiet }: ServeCommandOptions): Promise<void> {
  return new Promise((resolve) => {
    let stopping = false;
    const onSignal = (): void => {
      if (stopping) process.exit(130);
      stopping = true;
      if (!quiet) io.stderr.write("\nstopping when the requests under way are answered; once more ends it at once\n");
      server.close(() => {
        unlisten();
        resolve();
      });
      server.closeIdleConnections();
    };
    const unlisten = onStopSignals(onSignal);
  });
}
