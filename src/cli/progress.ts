import type { TemperEvent } from "../base/events.js";
import { formatBytes, formatCount, formatDuration, formatNumber, formatPercent } from "../base/format.js";
import { getColors, type Io, type OutputStream, removeControls } from "./io.js";

export interface ProgressOptions {
  readonly label: string;
  readonly total?: number | undefined;
  /** The unit of the count: "examples", "steps"; "bytes" are formatted as sizes. */
  readonly unit: string;
  /** Work that an earlier process did. It counts as done, but not towards the speed. */
  readonly start?: number;
  readonly quiet?: boolean | undefined;
  readonly stream?: OutputStream;
  readonly silence?: number | undefined;
  readonly now?: () => number;
}

/** More numbers to show: { loss: 0.31 }. */
export type ProgressDetails = Readonly<Record<string, string | number>>;

/**
 * The progress of one long job on stderr: a bar on a terminal, otherwise a line from time to time.
 */
export interface Progress {
  update(done: number, details?: ProgressDetails): void;
  printLine(text: string): void;
  end(): void;
}

const redrawMilliseconds = 100;
/** A shorter job needs no bar. */
const barDelayMilliseconds = 500;
/** Somebody who starts a command wants to see soon that it works. */
const silenceMilliseconds = 1500;
/** The interval at which the display looks for something to show between two updates. */
const refreshMilliseconds = 500;
const lineMilliseconds = 10_000;
/** Every 10% of a job get a line, too, but a fast job must not fill the log. */
const minLineMilliseconds = 2_000;
/** The first items to end may be the easy ones. A time estimated from fewer would grow by a factor. */
const minItemsForTime = 10;
const barWidth = 24;
const clearLine = "\r\x1b[2K";

function formatWithUnit(value: number, unit: string): string {
  return unit === "bytes" ? formatBytes(value) : `${formatCount(value)} ${unit}`;
}

function describeProgress(
  { total, unit, start = 0 }: ProgressOptions,
  done: number,
  elapsed: number,
  details: ProgressDetails,
): string[] {
  const formatAmount = unit === "bytes" ? formatBytes : formatCount;
  const rate = elapsed > 0 ? (done - start) / (elapsed / 1000) : 0;
  const speed = unit === "bytes" ? formatBytes(Math.round(rate)) : `${formatNumber(rate, 3)} ${unit}`;
  const hasRest = rate > 0 && total !== undefined && done < total && done - start >= minItemsForTime;
  return [
    total === undefined
      ? formatWithUnit(done, unit)
      : `${formatPercent(total > 0 ? done / total : 1, 0)}  ${formatAmount(done)} of ${formatWithUnit(total, unit)}`,
    ...(rate > 0 ? [`${speed}/s`] : []),
    ...(hasRest ? [`${formatDuration(((total - done) / rate) * 1000)} left`] : []),
    ...Object.entries(details).map(
      ([name, value]) => `${name} ${typeof value === "number" ? formatNumber(value) : value}`,
    ),
  ];
}

/**
 * Creates the progress display of one job. It writes inside its methods, so synchronous loops can
 * use it, and between them, so that work without an update is seen, too.
 */
export function createProgress(options: ProgressOptions): Progress {
  const { label, total, unit, start = 0, quiet = false, stream = process.stderr } = options;
  const { now = () => performance.now(), silence = silenceMilliseconds } = options;
  const colors = getColors(stream);
  const isTerminal = stream.isTTY === true;
  const countTenths = (value: number): number => (total ? Math.floor((value / total) * 10) : 0);
  const startTime = now();
  let lastTime = Number.NEGATIVE_INFINITY;
  let tenths = countTenths(start);
  let done = start;
  let details: ProgressDetails = {};
  let isBarShown = false;
  let hasWritten = false;
  let hasEnded = false;

  const listParts = (): string[] => describeProgress(options, done, now() - startTime, details);

  function renderBar(): void {
    const full = total ? Math.round(Math.min(1, done / total) * barWidth) : 0;
    const bar =
      total === undefined ? "" : `  ${colors.cyan("━".repeat(full))}${colors.dim("─".repeat(barWidth - full))}`;
    const used = label.length + (total === undefined ? 0 : barWidth + 2);
    // One column stays free: a full line would wrap, and a wrapped line cannot be cleared.
    const text = `  ${listParts().join("  ")}`.slice(0, Math.max(0, (stream.columns || 80) - 1 - used));
    stream.write(`${clearLine}${label}${bar}${text}`);
    isBarShown = true;
  }

  function clearBar(): void {
    if (isBarShown) stream.write(clearLine);
    isBarShown = false;
  }

  function show(): void {
    if (quiet || hasEnded) return;
    const time = now();
    if (isTerminal) {
      if (time - startTime < barDelayMilliseconds || time - lastTime < redrawMilliseconds) return;
      renderBar();
    } else {
      const since = time - Math.max(lastTime, startTime);
      const isDue = since >= lineMilliseconds || (countTenths(done) > tenths && since >= minLineMilliseconds);
      if (!isDue && (hasWritten || since < silence)) return;
      stream.write(`${label}: ${listParts().join(", ").replaceAll("  ", ", ")}\n`);
    }
    lastTime = time;
    tenths = countTenths(done);
    hasWritten = true;
  }

  const timer = quiet ? undefined : setInterval(show, refreshMilliseconds).unref();

  return {
    update(value, more) {
      done = value;
      if (more) details = more;
      show();
    },
    printLine(text) {
      if (quiet) return;
      const wasShown = isBarShown;
      clearBar();
      stream.write(removeControls(`${text}\n`));
      if (wasShown && !hasEnded) renderBar();
    },
    end() {
      if (hasEnded) return;
      hasEnded = true;
      clearInterval(timer);
      clearBar();
      if (hasWritten) stream.write(`${label}: ${formatWithUnit(done, unit)} in ${formatDuration(now() - startTime)}\n`);
    },
  };
}

export function createTextProgress(io: Io, label: string, quiet: boolean | undefined): Progress {
  const isQuiet = quiet || io.stdout.isTTY === true;
  return createProgress({ label, unit: "texts", quiet: isQuiet, stream: io.stderr, silence: io.silence });
}

export interface CommandCallbacks {
  onEvent(event: TemperEvent): void;
  /** Starts the bar of a stage of which some work is already done. */
  start(stage: string, done: number, total: number, unit: string): void;
  update(stage: string, done: number, total: number, details?: ProgressDetails): void;
  printLine(text: string): void;
  /** Ends the bar. Call it when the function has returned or thrown. */
  end(): void;
}

/**
 * Creates the callbacks of a command. One bar is shown at a time. `unit` is what the stages count.
 */
export function createCallbacks(io: Io, quiet: boolean | undefined, unit = "examples"): CommandCallbacks {
  const { stderr: stream, silence = silenceMilliseconds } = io;
  let current: { stage: string; progress: Progress } | null = null;
  // Models and data are loaded before the first stage.
  const loading =
    quiet || silence === Number.POSITIVE_INFINITY
      ? undefined
      : setTimeout(() => printLine("loading the model and the data"), silence).unref();
  const end = (): void => {
    clearTimeout(loading);
    current?.progress.end();
    current = null;
  };
  const start = (stage: string, done: number, total: number | undefined, counted: string): Progress => {
    end();
    const progress = createProgress({ label: stage, total, unit: counted, start: done, quiet, stream, silence });
    current = { stage, progress };
    return progress;
  };
  const show = (stage: string, done: number, total: number, counted: string, details?: ProgressDetails): void => {
    // What the first event counts was done before it, by an earlier process or without a bar.
    const progress = current?.stage === stage ? current.progress : start(stage, done, total, counted);
    progress.update(done, details);
    // The next pass of the same stage is timed separately.
    if (done === total) end();
  };
  const update: CommandCallbacks["update"] = (stage, done, total, details) => show(stage, done, total, unit, details);
  const printLine = (text: string): void => {
    if (current) current.progress.printLine(text);
    else if (!quiet) io.stderr.write(removeControls(`${text}\n`));
  };
  const showDownload = (file: string, received: number, total: number): void => {
    const progress = current?.stage === file ? current.progress : start(file, received, total, "bytes");
    progress.update(received);
    if (received === total) end();
  };
  return {
    start: (stage, done, total, counted) => void start(stage, done, total, counted),
    update,
    printLine,
    end,
    onEvent(event) {
      if (event.type === "progress") show(event.stage, event.done, event.total, event.unit ?? unit);
      if (event.type === "step") update("train", event.step, event.totalSteps);
      if (event.type === "warning") printLine(`warning: ${event.message}`);
      if (event.type === "download") showDownload(event.file, event.received, event.total);
    },
  };
}
