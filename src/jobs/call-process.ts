import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { getErrorMessage, UserError } from "../base/errors.js";
import { describeCrash } from "../base/processes.js";
import { packageRoot } from "../tensor/native.js";

export interface CallContext<Event> {
  readonly signal: AbortSignal;
  send(event: Event): void;
}

/** A method that a process offers to the one that started it. */
export type RemoteMethod<Input, Result, Event = never> = (input: Input, context: CallContext<Event>) => Promise<Result>;

type RemoteRequest =
  | { readonly id: number; readonly method: string; readonly input: unknown }
  | { readonly abort: number };
type RemoteAnswer = { readonly id: number } & (
  | { readonly event: unknown }
  | { readonly result: unknown }
  | { readonly error: string; readonly isUserError: boolean }
);

interface Waiting {
  onEvent(event: unknown): void;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * Calls methods in a process of their own, so that the event loop of this one stays free while they
 * compute. The first call starts the process, and the first call after its end starts another one.
 *
 *     const models = new CallProcess<PlaygroundMethods>("studio/playground-process.js");
 *     const scored = await models.call("score", { model: "runs/reviews", texts: ["A quiet film."] });
 */
export class CallProcess<Api extends { [Name in keyof Api]: RemoteMethod<never, unknown, never> }> {
  #child: ChildProcess | null = null;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  /** `program`: a compiled file below dist that calls `answerCalls`. */
  constructor(readonly program: string) {}

  call<Name extends keyof Api & string>(
    method: Name,
    input: Parameters<Api[Name]>[0],
    { signal, onEvent = () => undefined }: { signal?: AbortSignal; onEvent?: Parameters<Api[Name]>[1]["send"] } = {},
  ): Promise<Awaited<ReturnType<Api[Name]>>> {
    this.#child ??= this.#start();
    const child = this.#child;
    const id = ++this.#lastId;
    const send = (request: RemoteRequest): void => void (child.connected && child.send(request));
    signal?.addEventListener("abort", () => send({ abort: id }), { once: true });
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, {
        onEvent: onEvent as Waiting["onEvent"],
        resolve: resolve as Waiting["resolve"],
        reject,
      });
      send({ id, method, input });
    });
  }

  /** Ends the process. Calls that wait are rejected. */
  async close(): Promise<void> {
    const child = this.#child;
    if (child?.kill()) await once(child, "exit");
  }

  #start(): ChildProcess {
    const path = join(packageRoot, "dist", this.program);
    // In its own process group, so that Ctrl-C does not end it before this process is done with it.
    const child = fork(path, { execArgv: [], detached: true, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const end = (reason: string): void => {
      if (this.#child !== child) return;
      this.#child = null;
      for (const { reject } of this.#waiting.values()) reject(new UserError(reason));
      this.#waiting.clear();
    };
    child.on("message", (answer: RemoteAnswer) => this.#receive(answer));
    // A process that ended cannot be written to, either. Its end says why.
    child.on("error", (error) => {
      if (child.pid === undefined) end(`The process of the models could not be started: ${error.message}`);
    });
    child.once("exit", (code, signal) =>
      end(`The process of the models ended: ${signal ? describeCrash(signal) : `exit code ${code}`}. Try again.`),
    );
    return child;
  }

  #receive(answer: RemoteAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    if ("event" in answer) {
      waiting?.onEvent(answer.event);
      return;
    }
    this.#waiting.delete(answer.id);
    if ("error" in answer) waiting?.reject(answer.isUserError ? new UserError(answer.error) : new Error(answer.error));
    else waiting?.resolve(answer.result);
  }
}

/** Answers the calls of the process that started this one, and ends with it. */
export function answerCalls(methods: Readonly<Record<string, RemoteMethod<never, unknown, never>>>): void {
  const running = new Map<number, AbortController>();
  const send = (answer: RemoteAnswer): void => void (process.connected && process.send?.(answer));
  const answer = async (id: number, method: string, input: unknown): Promise<void> => {
    const stop = new AbortController();
    running.set(id, stop);
    try {
      const context = { signal: stop.signal, send: (event: unknown) => send({ id, event }) };
      send({ id, result: (await methods[method]!(input as never, context)) ?? null });
    } catch (error) {
      send({ id, error: getErrorMessage(error), isUserError: error instanceof UserError });
    } finally {
      running.delete(id);
    }
  };
  process.on("message", (request: RemoteRequest) => {
    if ("abort" in request) running.get(request.abort)?.abort();
    else void answer(request.id, request.method, request.input);
  });
  process.once("disconnect", () => process.exit());
}
