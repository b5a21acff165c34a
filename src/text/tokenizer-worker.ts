import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { resolveBinaryPackage } from "../base/binary-packages.js";
import { UserError } from "../base/errors.js";

/**
 * The package answers only through promises, but most callers of a tokenizer are synchronous. One
 * worker thread per process therefore runs the package. A caller can wait for it, or go on with
 * other work.
 */

/** A hostile regular expression can take forever. No real batch takes this long. */
const TIME_LIMIT_MS = 120_000;
/** Characters per message. It bounds the memory of the answers. */
const MAX_MESSAGE_LENGTH = 1 << 20;

/** The tokens of many texts: `counts` has the number of tokens of each text. */
export interface TokenBatch {
  readonly counts: Int32Array;
  readonly ids: Int32Array;
  /** First and last character + 1 per token, in code points; empty unless requested. */
  readonly offsets: Int32Array;
}

type Request =
  | { readonly create: number; readonly json: string }
  | { readonly remove: number }
  | { readonly encode: number; readonly texts: readonly string[]; readonly offsets: boolean };
type Answer = TokenBatch | { readonly error: string } | null;

/** The program of the worker. It is a string, because it also has to run before compilation. */
const program = `
const { workerData: { port, signal, path } } = require("node:worker_threads");
const { Tokenizer } = require(path);
const flag = new Int32Array(signal);
const tokenizers = new Map();
async function encode({ encode, texts, offsets }) {
  const encodings = await tokenizers.get(encode).encodeBatch(texts, { addSpecialTokens: false });
  const lists = encodings.map((encoding) => encoding.getIds());
  return {
    counts: Int32Array.from(lists, (list) => list.length),
    ids: Int32Array.from(lists.flat()),
    offsets: Int32Array.from(offsets ? encodings.flatMap((encoding) => encoding.getOffsets().flat()) : []),
  };
}
async function answer(request) {
  try {
    if ("create" in request) tokenizers.set(request.create, Tokenizer.fromString(request.json));
    else if ("remove" in request) tokenizers.delete(request.remove);
    else return await encode(request);
    return null;
  } catch (error) {
    return { error: String(error?.message ?? error) };
  }
}
port.on("message", async ({ number, request }) => {
  port.postMessage({ number, answer: await answer(request) });
  Atomics.add(flag, 0, 1);
  Atomics.notify(flag, 0);
});
`;

interface WorkerState {
  readonly port: MessagePort;
  /** The number of answers that were sent. */
  readonly signal: Int32Array;
  readonly pending: Map<number, (answer: Answer) => void>;
}

let state: WorkerState | undefined;
let requests = 0;
let tokenizers = 0;

function startWorker(): WorkerState {
  if (state) return state;
  const { port1: port, port2 } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const path = resolveBinaryPackage("tokenizers");
  const worker = new Worker(program, {
    eval: true,
    workerData: { port: port2, signal: signal.buffer, path },
    transferList: [port2],
    execArgv: [],
  });
  worker.unref();
  const pending = new Map<number, (answer: Answer) => void>();
  port.on("message", ({ number, answer }: { number: number; answer: Answer }) => settle(pending, number, answer));
  port.unref();
  state = { port, signal, pending };
  return state;
}

function settle(pending: WorkerState["pending"], number: number, answer: Answer): void {
  pending.get(number)?.(answer);
  pending.delete(number);
}

/** Sends a request and waits for its answer. Answers to earlier requests are passed on. */
function call(request: Request): Answer {
  const { port, signal, pending } = startWorker();
  const number = requests++;
  let result: { readonly answer: Answer } | undefined;
  pending.set(number, (answer) => {
    result = { answer };
  });
  let seen = Atomics.load(signal, 0);
  port.postMessage({ number, request });
  for (;;) {
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port))
      settle(pending, next.message.number, next.message.answer);
    if (result) return result.answer;
    if (Atomics.wait(signal, 0, seen, TIME_LIMIT_MS) === "timed-out") throw createTimeoutError();
    seen = Atomics.load(signal, 0);
  }
}

/** Sends a request. The promise keeps the process alive until the answer arrives. */
function send(request: Request): Promise<Answer> {
  const { port, pending } = startWorker();
  const number = requests++;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      pending.delete(number);
      reject(createTimeoutError());
    }, TIME_LIMIT_MS);
    pending.set(number, (answer) => {
      clearTimeout(timer);
      resolve(answer);
    });
    port.postMessage({ number, request });
  });
}

function createTimeoutError(): UserError {
  return new UserError(
    `The tokenizer did not answer for ${TIME_LIMIT_MS / 1000} seconds. ` +
      "A pattern in its tokenizer.json probably takes too long. Use another tokenizer.",
  );
}

/** A tokenizer of the package, without special tokens. */
export interface PackageTokenizer {
  /** Tokenizes texts and waits for the result. */
  encode(texts: readonly string[], withOffsets?: boolean): TokenBatch[];
  /** Tokenizes texts on the other thread. */
  encodeAsync(texts: readonly string[]): Promise<TokenBatch[]>;
}

/** Removes tokenizers that nobody uses any more. */
const registry = new FinalizationRegistry<number>((id) => {
  state?.port.postMessage({ number: requests++, request: { remove: id } });
});

/** Loads a tokenizer from checked JSON into the worker. `source` names it in messages. */
export function createPackageTokenizer(json: string, source: string): PackageTokenizer {
  const id = tokenizers++;
  const check = (answer: Answer): Answer => {
    if (answer && "error" in answer)
      throw new UserError(`${source}: the tokenizer reports: ${answer.error}. Use another tokenizer.`);
    return answer;
  };
  check(call({ create: id, json }));
  const toRequest = (texts: readonly string[], offsets: boolean): Request => ({ encode: id, texts, offsets });
  const tokenizer: PackageTokenizer = {
    encode: (texts, withOffsets = false) =>
      splitMessages(texts).map((part) => check(call(toRequest(part, withOffsets))) as TokenBatch),
    async encodeAsync(texts) {
      const batches: TokenBatch[] = [];
      for (const part of splitMessages(texts)) batches.push(check(await send(toRequest(part, false))) as TokenBatch);
      return batches;
    },
  };
  registry.register(tokenizer, id);
  return tokenizer;
}

function splitMessages(texts: readonly string[]): string[][] {
  const messages: string[][] = [];
  let length = Number.POSITIVE_INFINITY;
  for (const text of texts) {
    length += text.length;
    if (length > MAX_MESSAGE_LENGTH) {
      messages.push([]);
      length = text.length;
    }
    messages.at(-1)!.push(text);
  }
  return messages;
}
