import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { describeCrash } from "../base/processes.js";
import { packageRoot } from "../tensor/native.js";
import { HttpError } from "./http.js";
import type { ModelMessage, ModelProcessSettings, ServedModelFacts, TextsMessage } from "./model-process.js";
import type { ModelService, ServiceEvents } from "./model-service.js";

/** A service in a process of its own. */
export interface ModelProcess extends ModelService {
  readonly facts: ServedModelFacts;
  /** Rejected when the process ends before it is closed. */
  readonly crash: Promise<never>;
  close(): Promise<void>;
}

type Answers = Awaited<ReturnType<ModelService["answer"]>>;

/** Loads a model in another process, so that computing never delays other events of this one. */
export async function startModelProcess(
  settings: ModelProcessSettings,
  { onBatch, onWaiting, onEvent }: ServiceEvents & Pick<Callbacks, "onEvent">,
): Promise<ModelProcess> {
  // In its own process group: Ctrl-C reaches only this process. When it ends, so does the other one.
  const child = fork(join(packageRoot, "dist", "serve", "model-process.js"), {
    detached: true,
    execArgv: [],
    serialization: "advanced",
    // Standard output has only what this process prints.
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const pending = new Map<number, { resolve(answers: Answers): void; reject(error: unknown): void }>();
  const ended = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const crash = ended.then(([code, signal]): never => {
    const error = new UserError(
      `The process of the model ended (${signal === null ? `exit code ${code}` : describeCrash(signal)}). Start the server again.`,
    );
    for (const { reject } of pending.values()) reject(error);
    throw error;
  });
  crash.catch(() => undefined);
  const facts = new Promise<ServedModelFacts>((resolve, reject) => {
    child.on("message", (message: ModelMessage) => {
      if (message.kind === "event") onEvent?.(message.event);
      else if (message.kind === "batch") onBatch(message.texts);
      else if (message.kind === "waiting") onWaiting(message.passes);
      else if (message.kind === "ready") resolve(message.facts);
      else if (message.kind === "failed")
        reject(message.isUserError ? new UserError(message.message) : new Error(message.message));
      else {
        const request = pending.get(message.id);
        pending.delete(message.id);
        if (message.kind === "answers") request?.resolve(message.answers);
        else request?.reject(toError(message.failure));
      }
    });
  });
  const close = async (): Promise<void> => {
    if (child.connected) child.disconnect();
    await ended;
  };
  child.send(settings);
  let sent = 0;
  try {
    return {
      facts: await Promise.race([facts, crash]),
      crash,
      close,
      answer: (texts, client) =>
        new Promise<Answers>((resolve, reject) => {
          const message: TextsMessage = { id: sent++, texts, client };
          pending.set(message.id, { resolve, reject });
          child.send(message, (error) => error && reject(error));
        }),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function toError(failure: Extract<ModelMessage, { kind: "error" }>["failure"]): Error {
  if ("message" in failure) return new Error(failure.message);
  const { status, message, headers } = failure.http;
  return new HttpError(status, message, headers);
}
