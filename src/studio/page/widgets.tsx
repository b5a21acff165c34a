import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatDuration, formatInterval, formatPercent } from "../../base/format.js";
import type { MetricCell, RunRow } from "../api.js";
import { type ApiRequest, getMessage, load } from "./api.js";

/** The next thing to do if there is nothing to show. */
export function EmptyState({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A part of a report. Names and texts in it are escaped. */
export function ReportPart({ html }: { html: string }) {
  return <div dangerouslySetInnerHTML={{ __html: html }} />;
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
    <p class="note" role="status">
      Loading {what} …
    </p>
  );
}

interface SelectProps {
  readonly title: string;
  readonly value: string;
  readonly options: readonly { readonly value: string; readonly title?: string; readonly hint?: string }[];
  /** The title of the empty value; without it, one of the options must be chosen. */
  readonly none?: string;
  onChange(value: string): void;
}

export function Select({ title, value, options, none, onChange }: SelectProps) {
  return (
    <label>
      {title}{" "}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {options.map((option) => (
          <option key={option.value} value={option.value} title={option.hint}>
            {option.title ?? option.value}
          </option>
        ))}
      </select>
    </label>
  );
}

interface SearchProps {
  readonly title: string;
  readonly value: string;
  onChange(value: string): void;
}

export function SearchInput({ title, value, onChange }: SearchProps) {
  return (
    <input
      class="grow"
      type="search"
      aria-label={title}
      placeholder={title}
      value={value}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  );
}

export function StateBadge({ state }: { state: string }) {
  return <span class={`badge state-${state}`}>{state}</span>;
}

/** A bar of a fraction, for eyes only. The number is next to it. */
export function Bar({ fraction }: { fraction: number }) {
  const width = `${(100 * Math.min(1, Math.max(0, fraction))).toFixed(1)}%`;
  return (
    <svg class="bar" aria-hidden="true">
      <rect width={width} height="100%" />
    </svg>
  );
}

/** The progress of a run. While it runs, the time left follows from what the page has seen. */
export function Progress({ row }: { row: Pick<RunRow, "step" | "steps" | "name" | "state"> }) {
  const left = useTimeLeft(row.state === "running", row.step, row.steps);
  if (row.steps === null) return null;
  return (
    <>
      <progress max={row.steps} value={row.step} aria-label={`Progress of ${row.name}`} />
      <small>
        {row.step} of {row.steps} steps{left}
      </small>
    </>
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

function CopyButton({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button
      type="button"
      class="quiet"
      onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
    >
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <pre>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

interface Loaded<T> {
  /** The answer to the present request; null until it is there. */
  readonly data: T | null;
  /** The last answer, perhaps to an earlier request. */
  readonly last: T | null;
  readonly problem: string | null;
}

interface LoadedState<T> extends Omit<Loaded<T>, "data"> {
  readonly key: string;
}

/**
 * Loads the answer to a request, and again whenever the request changes. Null loads nothing. Answers
 * to earlier requests that come late are dropped. A request that must be repeated has a new `version`.
 */
export function useLoaded<T>(request: (ApiRequest & { readonly version?: unknown }) | null): Loaded<T> {
  const key = JSON.stringify(request);
  const [state, setState] = useState<LoadedState<T>>({ key: "", last: null, problem: null });
  useEffect(() => {
    if (request === null) return;
    const stop = new AbortController();
    load<T>(request, stop.signal).then(
      (last) => stop.signal.aborted || setState({ key, last, problem: null }),
      (error: unknown) => stop.signal.aborted || setState(({ last }) => ({ key, last, problem: getMessage(error) })),
    );
    return () => stop.abort();
  }, [key]);
  const { last } = state;
  const problem = state.key === key ? state.problem : null;
  return { data: state.key === key && problem === null ? last : null, last, problem };
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
