import { useEffect, useRef, useState } from "preact/hooks";
import type { SearchMessage } from "../api.js";
import { getMessage, readEvents } from "./api.js";

/** An attack as far as it is known. */
export interface WatchedSearch {
  readonly attack: string;
  readonly isRunning: boolean;
  readonly step: Extract<SearchMessage, { type: "step" }> | null;
  readonly end: Extract<SearchMessage, { type: "end" }> | null;
  readonly problem: string | null;
}

export interface SearchBody {
  readonly model: string;
  readonly texts: readonly string[];
  readonly label: number | null;
  readonly attack: string;
  readonly options: Readonly<Record<string, unknown>>;
}

export interface Searches {
  readonly watched: ReadonlyMap<string, WatchedSearch>;
  readonly isRunning: boolean;
  /** Attacks one text on several models. Earlier attacks are forgotten. */
  start(bodies: readonly SearchBody[]): void;
  /** Stops what is running. Results stay. */
  stop(): void;
  /** Stops what is running and forgets the results. */
  clear(): void;
}

/** Runs attacks and follows them. Answers of an attack that was stopped change nothing. */
export function useAttacks(): Searches {
  const [watched, setWatched] = useState<ReadonlyMap<string, WatchedSearch>>(new Map());
  const current = useRef(new AbortController());
  useEffect(() => () => current.current.abort(), []);
  const renew = (): AbortSignal => {
    current.current.abort();
    current.current = new AbortController();
    return current.current.signal;
  };
  const follow = async (body: SearchBody, signal: AbortSignal): Promise<void> => {
    const update = (change: Partial<WatchedSearch>): void => {
      if (signal.aborted) return;
      setWatched((before) => new Map(before).set(body.model, { ...before.get(body.model)!, ...change }));
    };
    try {
      for await (const message of readEvents<SearchMessage>({ path: "playground/attack", body }, signal)) {
        if (message.type === "step") update({ step: message });
        else if (message.type === "end") update({ end: message });
        else update({ problem: message.message });
      }
    } catch (error) {
      update({ problem: getMessage(error) });
    }
    update({ isRunning: false });
  };
  return {
    watched,
    isRunning: [...watched.values()].some(({ isRunning }) => isRunning),
    start(bodies) {
      const signal = renew();
      const empty = { isRunning: true, step: null, end: null, problem: null };
      setWatched(new Map(bodies.map(({ model, attack }) => [model, { ...empty, attack }])));
      for (const body of bodies) void follow(body, signal);
    },
    stop() {
      renew();
      setWatched((before) => new Map([...before].map(([model, each]) => [model, { ...each, isRunning: false }])));
    },
    clear() {
      renew();
      setWatched(new Map());
    },
  };
}
