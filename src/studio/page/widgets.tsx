import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatDuration, formatInterval, formatPercent } from "../../base/format.js";
import type { MetricCell, RunRow } from "../api.js";
import { getMessage } from "./api.js";

/** What to do next if there is nothing to show. */
export function EmptyState({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Problem({ message }: { message: string | null }) {
  return message === null ? null : (
    <p class="problem" role="alert">
      {message}
    </p>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" /> Loading {what} …
    </p>
  );
}

export function StateBadge({ state }: { state: string }) {
  return <span class={`badge ${state}`}>{state}</span>;
}

/** A bar of a fraction, for eyes only. The number is next to it. */
export function Bar({ fraction, kind = "" }: { fraction: number; kind?: string }) {
  const width = `${(100 * Math.min(1, Math.max(0, fraction))).toFixed(1)}%`;
  return (
    <span class={`bar ${kind}`} aria-hidden="true">
      <span style={{ width }} />
    </span>
  );
}

/** How far a run is. While it runs, the time left follows from what the page has seen. */
export function Progress({ row }: { row: Pick<RunRow, "step" | "steps" | "name" | "state"> }) {
  const left = useTimeLeft(row.state === "running", row.step, row.steps);
  if (row.steps === null) return null;
  return (
    <span class="progress">
      <progress max={row.steps} value={row.step} aria-label={`Progress of ${row.name}`} />
      <small>
        {row.step} of {row.steps} steps{left}
      </small>
    </span>
  );
}

/** Estimates from the progress since the page was opened: ", 0:42 left", or nothing yet. */
export function useTimeLeft(isRunning: boolean, done: number, total: number | null): string {
  const start = useRef<{ done: number; time: number } | null>(null);
  if (!isRunning || (start.current && done < start.current.done)) start.current = null;
  if (isRunning && done > 0) start.current ??= { done, time: Date.now() };
  if (!isRunning || !start.current || total === null || done <= start.current.done) return "";
  const perUnit = (Date.now() - start.current.time) / (done - start.current.done);
  return `, ${formatDuration(perUnit * (total - done))} left`;
}

export function formatCell({ value, low, high }: MetricCell): { value: string; interval: string } {
  return { value: formatPercent(value), interval: low === null ? "" : formatInterval(low, high!) };
}

/** Copies a text, and says so for a moment. */
export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button type="button" class="quiet" onClick={() => void copyText(text).then(() => setCopied(true))}>
      {isCopied ? "Copied" : label}
    </button>
  );
}

async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Some browsers allow the clipboard only to pages of https.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** Loads something again whenever a key changes. What was shown stays until the new is there. */
export function useLoaded<T>(
  load: () => Promise<T>,
  keys: readonly unknown[],
): { data: T | null; problem: string | null } {
  const [state, setState] = useState<{ data: T | null; problem: string | null }>({ data: null, problem: null });
  useEffect(() => {
    let isCurrent = true;
    load().then(
      (data) => isCurrent && setState({ data, problem: null }),
      (error: unknown) => isCurrent && setState((before) => ({ ...before, problem: getMessage(error) })),
    );
    return () => {
      isCurrent = false;
    };
  }, keys);
  return state;
}

/** A value that follows another one after it has not changed for a while. */
export function useDelayed<T>(value: T, milliseconds: number): T {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return delayed;
}
