/**
 * An event while an action works. `type` says which event it is.
 *
 *     const onEvent = (event: TemperEvent) => event.type === "warning" && console.warn(event.message);
 */
export type TemperEvent =
  /** The progress of a long action, except for the optimizer steps of a training. */
  | {
      readonly type: "progress";
      /** The work in progress: "validation", "attack pwws", … */
      readonly stage: string;
      readonly done: number;
      readonly total: number;
      /** The unit of the count, such as "models". Default: examples. */
      readonly unit?: string;
    }
  | { readonly type: "warning"; readonly message: string }
  | {
      readonly type: "download";
      readonly file: string;
      /** Bytes, also those of an earlier attempt. */
      readonly received: number;
      readonly total: number;
    }
  /** A training begins. From now on `signal` makes it save its work. */
  | {
      readonly type: "start";
      /** The optimizer steps that a resumed run has already done. */
      readonly step: number;
      readonly totalSteps: number;
      readonly parameters: number;
    }
  /** An optimizer step is done. */
  | {
      readonly type: "step";
      readonly step: number;
      readonly totalSteps: number;
      readonly epoch: number;
      readonly examples: number;
      readonly seconds: number;
      /** The last loss that was read from the device. */
      readonly loss: number;
      readonly learningRate: number;
    }
  | {
      readonly type: "evaluation";
      readonly step: number;
      /** Validation metrics by name. */
      readonly metrics: Readonly<Record<string, number>>;
      readonly isBest: boolean;
    }
  /** A line of events.jsonl, when it is written. */
  | { readonly type: "log"; readonly entry: Readonly<Record<string, unknown>> };

/**
 * Callbacks of every action of the library.
 *
 *     await attack(request, { onEvent: console.log, signal: AbortSignal.timeout(60_000) });
 */
export interface Callbacks {
  /** Called with everything that happens. It must not block. */
  readonly onEvent?: ((event: TemperEvent) => void) | undefined;
  /** Abort it to stop the action after it has saved its work; it then throws `Interrupted`. */
  readonly signal?: AbortSignal | undefined;
}

export function warn({ onEvent }: Pick<Callbacks, "onEvent">, message: string): void {
  onEvent?.({ type: "warning", message });
}

/** Reports how far a stage of the work is. */
export function reportProgress(
  { onEvent }: Pick<Callbacks, "onEvent">,
  stage: string,
  done: number,
  total: number,
  unit?: string,
): void {
  onEvent?.({ type: "progress", stage, done, total, ...(unit !== undefined && { unit }) });
}

/**
 * A function per type of event.
 *
 *     const handlers: EventHandlers = { warning: ({ message }) => console.warn(message) };
 */
export type EventHandlers = {
  readonly [Type in TemperEvent["type"]]?: (event: Extract<TemperEvent, { type: Type }>) => unknown;
};

/**
 * Creates callbacks with a function per type of event.
 *
 *     await train(request, listen({ step: ({ step, loss }) => console.log(step, loss) }));
 */
export function listen(handlers: EventHandlers): Required<Pick<Callbacks, "onEvent">> {
  return {
    onEvent(event) {
      const handle = handlers[event.type] as ((event: TemperEvent) => unknown) | undefined;
      handle?.(event);
    },
  };
}
