import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { resolveBinaryPackage } from "../base/binary-packages.js";
import { UserError } from "../base/errors.js";

/**
 * The package answers only through promises, but most callers of a tokenizer are synchronous. One
 * worker thread per process therefore runs the package, and the callers wait for it.
 */

/** No real batch takes this long. A worker without memory never answers. */
const timeLimitMs = 120_000;

export interface TextTokens {
  readonly ids: number[];
  /** First and last character + 1 per token, in code points. Only if requested. */
  readonly offsets?: [number, number][];
}

type Request =
  | { readonly create: number; readonly json: string }
  | { readonly remove: number }
  | { readonly encode: number; readonly texts: readonly string[]; readonly withOffsets: boolean };
type Answer = { readonly tokens: readonly TextTokens[] } | { readonly error: string };

/** The program of the worker. It is a string, because it also has to run before compilation. */
const program = `
const { workerData: { port, signal, path } } = require("node:worker_threads");
const tokenizers = new Map();
async function answer({ create, json, encode, texts, withOffsets }) {
  try {
    if (create !== undefined) tokenizers.set(create, require(path).Tokenizer.fromString(json));
    const encodings = create === undefined
      ? await tokenizers.get(encode).encodeBatch(texts, { addSpecialTokens: false })
      : [];
    return {
      tokens: encodings.map((encoding) =>
        withOffsets ? { ids: encoding.getIds(), offsets: encoding.getOffsets() } : { ids: encoding.getIds() }),
    };
  } catch (error) {
    return { error: String(error?.message ?? error) };
  }
}
port.on("message", async (request) => {
  if (request.remove !== undefined) return tokenizers.delete(request.remove);
  port.postMessage(await answer(request));
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});
`;

let state: { readonly port: MessagePort; readonly signal: Int32Array } | undefined;
let numTokenizers = 0;

function startWorker(): NonNullable<typeof state> {
  if (state) return state;
  const { port1: port, port2 } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const path = resolveBinaryPackage("tokenizers");
  const worker = new Worker(program, {
    eval: true,
    workerData: { port: port2, signal, path },
    transferList: [port2],
    execArgv: [],
  });
  worker.unref();
  state = { port, signal };
  return state;
}

function call(request: Request, source: string): readonly TextTokens[] {
  const { port, signal } = startWorker();
  Atomics.store(signal, 0, 0);
  port.postMessage(request);
  const end = performance.now() + timeLimitMs;
  // The worker notifies after it stores. A late notification of the last answer wakes this wait too soon.
  while (Atomics.load(signal, 0) === 0) {
    if (Atomics.wait(signal, 0, 0, end - performance.now()) !== "timed-out") continue;
    state = undefined;
    throw new UserError(
      `${source}: the tokenizer did not answer for ${timeLimitMs / 1000} seconds. Use another tokenizer or shorter texts.`,
    );
  }
  const answer: Answer = receiveMessageOnPort(port)!.message;
  if ("error" in answer)
    throw new UserError(`${source}: the tokenizer reports: ${answer.error}. Use another tokenizer.`);
  return answer.tokens;
}

/** Removes tokenizers that nobody uses any more. */
const registry = new FinalizationRegistry<number>((id) => state?.port.postMessage({ remove: id }));

/** Tokenizes texts, without special tokens around them. */
export type PackageTokenizer = (texts: readonly string[], withOffsets?: boolean) => readonly TextTokens[];

/** Loads a tokenizer from checked JSON into the worker. `source` names it in messages. */
export function createPackageTokenizer(json: string, source: string): PackageTokenizer {
  const id = numTokenizers++;
  call({ create: id, json }, source);
  const tokenizer: PackageTokenizer = (texts, withOffsets = false) => call({ encode: id, texts, withOffsets }, source);
  registry.register(tokenizer, id);
  return tokenizer;
}
