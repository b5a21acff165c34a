import { useEffect, useState } from "preact/hooks";
import type { RunRow, StudioState } from "../api.js";
import { getMessage, load } from "./api.js";

/** What the server knows, while the page is open. */
export interface LiveState extends Pick<StudioState, "jobs" | "exports" | "isReady"> {
  readonly rows: ReadonlyMap<string, RunRow>;
  /** The reason why the page is not up to date; null if it is. */
  readonly problem: string | null;
}

const initialState: LiveState = { rows: new Map(), jobs: [], exports: [], isReady: false, problem: null };
/** Between two questions to the server. */
const [milliseconds, millisecondsUntilReady] = [700, 300];

function applyChanges(
  before: LiveState,
  { rows: changed, isComplete, jobs, exports, isReady }: StudioState,
): LiveState {
  const known = [...(isComplete ? [] : before.rows), ...changed.map((row) => [row.id, row] as const)];
  const rows = isComplete || changed.length > 0 ? new Map(known) : before.rows;
  return { rows, jobs, exports, isReady, problem: null };
}

/** Asks the server again and again what has changed. */
export function useLiveState(): LiveState {
  const [state, setState] = useState(initialState);
  useEffect(() => {
    let [since, last, pause] = [0, "", millisecondsUntilReady];
    const ask = async (): Promise<void> => {
      try {
        const answer = await load<StudioState>({ path: "state", body: { since } });
        const text = JSON.stringify(answer);
        if (text !== last) setState((before) => applyChanges(before, answer));
        [since, last] = [answer.version, text];
        if (answer.isReady) pause = milliseconds;
      } catch (error) {
        last = "";
        setState((before) => ({ ...before, problem: getMessage(error) }));
      }
      setTimeout(() => void ask(), pause);
    };
    void ask();
  }, []);
  return state;
}
