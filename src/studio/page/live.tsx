import { useEffect, useState } from "preact/hooks";
import type { ExportRow, JobRow, LiveMessage, RunRow, SweepRow } from "../api.js";
import { getMessage, readEvents } from "./api.js";

/** The messages of the server while the page is open. */
export interface LiveState {
  readonly rows: ReadonlyMap<string, RunRow>;
  readonly sweeps: readonly SweepRow[];
  readonly jobs: readonly JobRow[];
  readonly exports: readonly ExportRow[];
  /** True when every run has been read once. */
  readonly isReady: boolean;
  /** The reason why the page is not up to date; null if it is. */
  readonly problem: string | null;
}

const initialState: LiveState = { rows: new Map(), sweeps: [], jobs: [], exports: [], isReady: false, problem: null };
const reconnectMilliseconds = 1000;

function applyMessage(state: LiveState, message: LiveMessage): LiveState {
  if (message.type === "ready") return { ...state, isReady: true };
  if (message.type === "sweeps") return { ...state, sweeps: message.sweeps };
  if (message.type === "jobs") return { ...state, jobs: message.jobs };
  if (message.type === "exports") return { ...state, exports: message.exports };
  const rows = new Map(state.rows);
  for (const id of message.removed) rows.delete(id);
  for (const row of message.rows) rows.set(row.id, row);
  return { ...state, rows };
}

/** Connects to the server, and again if the connection is lost. */
export function useLiveState(): LiveState {
  const [state, setState] = useState(initialState);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const connect = async (): Promise<void> => {
      let isFirst = true;
      try {
        for await (const message of readEvents<LiveMessage>({ path: "live" }, stop.signal)) {
          // The first message has all runs, so runs that are gone disappear.
          const base = isFirst ? { rows: new Map<string, RunRow>(), problem: null } : {};
          isFirst = false;
          setState((before) => applyMessage({ ...before, ...base }, message));
        }
        setState((before) => ({ ...before, problem: "The connection to the studio was lost." }));
      } catch (error) {
        if (stop.signal.aborted) return;
        setState((before) => ({ ...before, problem: getMessage(error) }));
      }
      timer = setTimeout(() => void connect(), reconnectMilliseconds);
    };
    void connect();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, []);
  return state;
}
