import { formatBytes, formatCount, formatDuration, formatNumber, formatPercent } from "../format.js";
import { getColors, type OutputStream } from "./io.js";

export interface ProgressOptions {
  readonly label: string;
  /** How much there is to do; left out where nobody knows. */
  readonly total?: number | undefined;
  /** What is counted: "texts", "steps"; "bytes" are shown as such. */
  readonly unit: string;
  /** What was already done before, in a resumed run: it counts as done but not as fast. */
  readonly start?: number;
  readonly quiet?: boolean | undefined;
  readonly stream?: OutputStream;
  readonly now?: () => number;
}

/** More to say than how far it is: { loss: 0.31 }. */
export type ProgressDetails = Readonly<Record<string, string | number>>;

/** How far a long job is, told on stderr: a bar on a terminal, else a line now and then. */
export interface Progress {
  update(done: number, facts?: ProgressDetails): void;
  /** A line that stays. */
  printLine(text: string): void;
  end(): void;
}

const redrawMilliseconds = 100;
/** A job that is over sooner needs no bar. */
const barDelayMilliseconds = 500;
const lineMilliseconds = 10_000;
/** A tenth done is worth a line too, but a fast job must not fill the log. */
const tenthMilliseconds = 2_000;
const barWidth = 24;
const clearLine = "\r\x1b[2K";

/** Opens the progress of one job. It writes only when told of something, so a synchronous loop is served as well. */
export function createProgress(options: ProgressOptions): Progress {
  const {
    label,
    total,
    unit,
    start = 0,
    quiet = false,
    stream = process.stderr,
    now = () => performance.now(),
  } = options;
  const colors = getColors(stream);
  const terminal = stream.isTTY === true;
  const amount = (value: number): string => (unit === "bytes" ? formatBytes(value) : formatCount(value));
  const counted = (value: number): string => (unit === "bytes" ? formatBytes(value) : `${formatCount(value)} ${unit}`);
  const began = now();
  let shown = Number.NEGATIVE_INFINITY;
  let tenth = countTenths(start);
  let done = start;
  let facts: ProgressDetails = {};
  let barOnScreen = false;
  let told = false;
  let ended = false;

  function countTenths(value: number): number {
    return total ? Math.floor((value / total) * 10) : 0;
  }

  function parts(): string[] {
    const elapsed = now() - began;
    const rate = elapsed > 0 ? (done - start) / (elapsed / 1000) : 0;
    const rateText = unit === "bytes" ? formatBytes(Math.round(rate)) : `${formatNumber(rate, 3)} ${unit}`;
    return [
      total === undefined
        ? counted(done)
        : `${formatPercent(total > 0 ? done / total : 1, 0)}  ${amount(done)} of ${counted(total)}`,
      ...(rate > 0 ? [`${rateText}/s`] : []),
      ...(rate > 0 && total !== undefined && done < total
        ? [`${formatDuration(((total - done) / rate) * 1000)} left`]
        : []),
      ...Object.entries(facts).map(
        ([name, value]) => `${name} ${typeof value === "number" ? formatNumber(value) : value}`,
      ),
    ];
  }

  function renderBar(): void {
    const full = total ? Math.round(Math.min(1, done / total) * barWidth) : 0;
    const bar =
      total === undefined ? "" : `  ${colors.cyan("━".repeat(full))}${colors.dim("─".repeat(barWidth - full))}`;
    const used = label.length + (total === undefined ? 0 : barWidth + 2);
    // One column less than there are: a full line would wrap, and a wrapped line cannot be cleared.
    const text = `  ${parts().join("  ")}`.slice(0, Math.max(0, (stream.columns || 80) - 1 - used));
    stream.write(`${clearLine}${label}${bar}${text}`);
    barOnScreen = true;
  }

  function clear(): void {
    if (barOnScreen) stream.write(clearLine);
    barOnScreen = false;
  }

  return {
    update(value, more) {
      done = value;
      if (more) facts = more;
      if (quiet || ended) return;
      const time = now();
      if (terminal) {
        if (time - began < barDelayMilliseconds || time - shown < redrawMilliseconds) return;
        renderBar();
      } else {
        const since = time - Math.max(shown, began);
        if (since < lineMilliseconds && !(countTenths(done) > tenth && since >= tenthMilliseconds)) return;
        stream.write(`${label}: ${parts().join(", ").replaceAll("  ", ", ")}\n`);
      }
      shown = time;
      tenth = countTenths(done);
      told = true;
    },
    printLine(text) {
      if (quiet) return;
      const redraw = barOnScreen;
      clear();
      stream.write(`${text}\n`);
      if (redraw && !ended) renderBar();
    },
    end() {
      if (ended) return;
      ended = true;
      clear();
      if (!told) return;
      stream.write(`${label}: ${counted(done)} in ${formatDuration(now() - began)}\n`);
    },
  };
}
